/* Calls of what a framework compiled: an outermost one ends a step.
 *
 * Objects of jaxlib's PjitFunction carry their vectorcall with them, so that
 * those of the user's functions are given ours and those of the framework's
 * own (every function of jax.numpy is one) cost nothing.  A new one is seen
 * when the framework notes in an attribute which function it was made of.
 * Classes of Python's are seen by their tp_call.
 */
#include "../core/base/read.h"
#include "../core/base/thread.h"
#include "hooks.h"

#include <string.h>

#define MOST_TYPES 8

static vectorcallfunc instance_call; /* as the framework has it */
static setattrofunc set_attribute;
static PyTypeObject *instances; /* owned */
static PyObject *attribute;     /* owned: str */
static struct {
    PyTypeObject *type;   /* owned */
    PyObject *function;   /* owned: str, the attribute that has it, or NULL */
    ternaryfunc call;     /* as it was */
} types[MOST_TYPES];
static int ntypes, reporting, was_traced;
/* Functions that were traced are numbered by the listener: how often each was
 * called since its first trace, by whichever callable was made of it.  Two
 * callables in one place: the one that was traced last is counted. */
#define MOST_COUNTED 1024
#define PLACES 256
static struct {
    PyObject *callable; /* borrowed address, compared only */
    uint32_t number;
} counted[PLACES];
static uint64_t calls[MOST_COUNTED];
static PyObject *listener; /* owned */
static IA_OF_THREAD int depth;

/* -- after a call ---------------------------------------------------------- */

static size_t
place_of(PyObject *callable)
{
    return ((uintptr_t)callable >> 4) % PLACES;
}

static void
count_call(PyObject *callable)
{
    size_t i = place_of(callable);
    if (counted[i].callable == callable)
        calls[counted[i].number]++;
}

/* `name`: the attribute that has what was compiled, or NULL. */
static void
tell_of_trace(PyObject *callable, PyObject *name, PyObject *args,
              PyObject *kwargs)
{
    was_traced = 0;
    if (listener == NULL || args == NULL)
        return;
    PyObject *given =
        name != NULL ? ia_instance_attribute(callable, ia_utf8(name)) : NULL;
    PyObject *function = given != NULL ? ia_program_function(given) : NULL;
    PyObject *hold = Py_NewRef(listener);
    PyObject *result = PyObject_CallFunctionObjArgs(
        hold, callable, function ? function : Py_None, args,
        kwargs ? kwargs : Py_None, NULL);
    size_t number = result != NULL && PyLong_CheckExact(result)
                        ? PyLong_AsSize_t(result)
                        : MOST_COUNTED;
    PyErr_Clear();
    if (number < MOST_COUNTED) {
        size_t i = place_of(callable);
        counted[i].callable = callable;
        counted[i].number = (uint32_t)number;
    }
    Py_XDECREF(result);
    Py_DECREF(hold);
}

static PyObject *
named_args(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *kwargs = PyDict_New();
    Py_ssize_t n = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; kwargs && i < n; i++)
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, i),
                           args[count + i]) < 0)
            Py_CLEAR(kwargs);
    return kwargs;
}

static void
tell_of_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                   PyObject *names)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *tuple = PyTuple_New(count);
    PyObject *kwargs = named_args(args, count, names);
    for (Py_ssize_t i = 0; tuple && i < count; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    if (kwargs != NULL)
        tell_of_trace(callable, attribute, tuple, kwargs);
    PyErr_Clear();
    Py_XDECREF(tuple);
    Py_XDECREF(kwargs);
}

/* A call begins; what was traced outside of any is no compiled function. */
static void
begin_call(void)
{
    if (depth++ == 0)
        was_traced = 0;
}

static PyObject *
call_instance(PyObject *self, PyObject *const *args, size_t nargsf,
              PyObject *names)
{
    begin_call();
    PyObject *result = instance_call(self, args, nargsf, names);
    if (--depth > 0 || result == NULL || !reporting)
        return result;
    if (was_traced)
        tell_of_vectorcall(self, args, nargsf, names);
    count_call(self);
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    ia_api->call_ends(IA_EVENT_COMPILED, args,
                      PyVectorcall_NARGS(nargsf) + named);
    return result;
}

/* Its number; there is one where our slot is. */
static int
number_of_type(PyTypeObject *type)
{
    int i = 0;
    while (i < ntypes - 1 && !PyType_IsSubtype(type, types[i].type))
        i++;
    return i;
}

static PyObject *
call_typed(PyObject *self, PyObject *args, PyObject *kwargs)
{
    begin_call();
    int i = number_of_type(Py_TYPE(self));
    PyObject *result = types[i].call(self, args, kwargs);
    if (--depth > 0 || result == NULL || !reporting)
        return result;
    if (was_traced)
        tell_of_trace(self, types[i].function, args, kwargs);
    count_call(self);
    PyObject *given[] = {args, kwargs};
    ia_api->call_ends(IA_EVENT_COMPILED, given, kwargs != NULL ? 2 : 1);
    return result;
}

/* -- in and out ------------------------------------------------------------ */

static vectorcallfunc *
slot_of(PyObject *callable)
{
    return (vectorcallfunc *)((char *)callable +
                              Py_TYPE(callable)->tp_vectorcall_offset);
}

void
ia_calls_watch_instance(PyObject *callable, PyObject *function)
{
    if (instances == NULL || Py_TYPE(callable) != instances ||
        ia_program_function(function) == NULL)
        return;
    vectorcallfunc *slot = slot_of(callable);
    if (instance_call == NULL && *slot != call_instance)
        instance_call = *slot;
    if (*slot == instance_call)
        *slot = call_instance;
}

static int
note_attribute(PyObject *self, PyObject *name, PyObject *value)
{
    int result = set_attribute(self, name, value);
    if (result == 0 && reporting && value != NULL &&
        PyUnicode_Compare(name, attribute) == 0)
        ia_calls_watch_instance(self, value);
    return result;
}

int
ia_calls_watch_instances(PyTypeObject *type, const char *name)
{
    if (type->tp_vectorcall_offset <= 0) {
        PyErr_Format(PyExc_RuntimeError, "%s is called in another way",
                     type->tp_name);
        return -1;
    }
    if (attribute == NULL)
        attribute = PyUnicode_InternFromString(name);
    if (attribute == NULL)
        return -1;
    if (instances == NULL)
        instances = (PyTypeObject *)Py_NewRef((PyObject *)type);
    if (type->tp_setattro != note_attribute) {
        set_attribute = type->tp_setattro;
        type->tp_setattro = note_attribute;
        PyType_Modified(type);
    }
    reporting = 1;
    return 0;
}

int
ia_calls_watch_type(PyTypeObject *type, const char *function)
{
    reporting = 1;
    if (type->tp_call == call_typed || type->tp_call == NULL)
        return 0;
    int i = 0;
    while (i < ntypes && types[i].type != type)
        i++;
    if (i == MOST_TYPES)
        return 0;
    if (i == ntypes) {
        types[i].function =
            function != NULL ? PyUnicode_InternFromString(function) : NULL;
        if (function != NULL && types[i].function == NULL)
            return -1;
        types[ntypes++].type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    }
    types[i].call = type->tp_call;
    type->tp_call = call_typed;
    return 0;
}

/* Objects keep our vectorcall, which hands on. */
void
ia_calls_unwatch(void)
{
    reporting = 0;
    if (instances != NULL && instances->tp_setattro == note_attribute) {
        instances->tp_setattro = set_attribute;
        PyType_Modified(instances);
    }
    for (int i = 0; i < ntypes; i++)
        if (types[i].type->tp_call == call_typed)
            types[i].type->tp_call = types[i].call;
    Py_CLEAR(listener);
}

void
ia_calls_set_listener(PyObject *function)
{
    memset(counted, 0, sizeof counted);
    memset(calls, 0, sizeof calls);
    Py_XSETREF(listener, Py_XNewRef(function));
}

uint64_t
ia_calls_of(size_t number)
{
    return number < MOST_COUNTED ? calls[number] : 0;
}

void
ia_calls_traced(void)
{
    was_traced = 1;
}

int
ia_calls_running(void)
{
    return depth > 0;
}

void
ia_calls_silence(void)
{
    reporting = 0;
}

int
ia_calls_traverse(visitproc visit, void *arg)
{
    Py_VISIT(listener);
    return 0;
}
