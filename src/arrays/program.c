/* Whose function was compiled: the program's, or a framework's own.
 *
 * A function that JAX has wrapped (value_and_grad, shard_map, vmap) is code of
 * JAX's around one of the program's.  The way from the one to the other is read
 * from where wrappers note it; nobody's code runs.
 */
#include "../core/base/read.h"
#include "hooks.h"

#include <string.h>

/* Packages that compile functions of their own. */
static const char *const packages[] = {"jax",   "jaxlib", "optax",
                                       "chex",  "orbax",  "tensorflow"};
/* Wrappers around wrappers: a program nests a handful. */
#define MOST_WRAPPERS 16

static int
is_in_package(PyObject *module)
{
    if (module == NULL || !PyUnicode_Check(module))
        return 0;
    const char *text = ia_utf8(module);
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++) {
        size_t n = strlen(packages[i]);
        if (strncmp(text, packages[i], n) == 0 &&
            (text[n] == 0 || text[n] == '.'))
            return 1;
    }
    return 0;
}

/* functools.partial is nobody's: what it calls is somebody's. */
static int
is_programs(PyObject *op)
{
    if (PyFunction_Check(op))
        return !is_in_package(
            ia_dict_value(PyFunction_GET_GLOBALS(op), "__name__"));
    return strcmp(Py_TYPE(op)->tp_name, "functools.partial") != 0 &&
           !is_in_package(ia_type_attribute(Py_TYPE(op), "__module__"));
}

/* -- what a wrapper wraps: borrowed, or NULL ------------------------------- */

/* What a slot of a class has, or a field of a C type. */
static PyObject *
member(PyObject *op, const char *name)
{
    PyObject *descr = ia_type_attribute(Py_TYPE(op), name);
    if (descr == NULL || !Py_IS_TYPE(descr, &PyMemberDescr_Type))
        return NULL;
    PyObject *value = Py_TYPE(descr)->tp_descr_get(
        descr, op, (PyObject *)Py_TYPE(op));
    PyErr_Clear();
    Py_XDECREF(value); /* the field has it */
    return value;
}

/* pmap compiles a function of JAX's that calls a linear_util.WrappedFun, whose
 * slot `f` is what was given to pmap. */
static PyObject *
closed_over(PyObject *function)
{
    PyObject *closure = PyFunction_GET_CLOSURE(function);
    Py_ssize_t n = closure ? PyTuple_GET_SIZE(closure) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *op = PyCell_GET(PyTuple_GET_ITEM(closure, i));
        if (op != NULL && strcmp(Py_TYPE(op)->tp_name, "WrappedFun") == 0)
            return member(op, "f");
    }
    return NULL;
}

static PyObject *
wrapped(PyObject *op)
{
    if (PyMethod_Check(op))
        return PyMethod_GET_FUNCTION(op);
    if (ia_base_named(Py_TYPE(op), "functools.partial") != NULL)
        return member(op, "func");
    PyObject *inner = ia_instance_attribute(op, "__wrapped__");
    if (inner == NULL && PyFunction_Check(op) && !is_programs(op))
        inner = closed_over(op);
    return inner;
}

PyObject *
ia_program_function(PyObject *op)
{
    PyObject *found = NULL;
    for (int i = 0; op != NULL && i < MOST_WRAPPERS; i++) {
        if (!PyMethod_Check(op) && is_programs(op))
            found = op;
        op = wrapped(op);
    }
    return found;
}
