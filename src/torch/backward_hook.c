/* The end of a backward: an engine object that passes run_backward through
 * to the one in force and then tells the core.
 *
 * Being a C method it adds no frame to anybody's traceback.
 */
#include "../core/base/thread.h"
#include "hooks.h"

typedef struct {
    PyObject_HEAD
    PyObject *original; /* owned */
} ia_engine;

static IA_OF_THREAD int depth; /* of backwards, in this thread */

static PyObject *
call_original(PyObject *original, PyObject *args, PyObject *kwargs)
{
    PyObject *method = PyObject_GetAttrString(original, "run_backward");
    PyObject *result;

    if (method == NULL) {
        return NULL;
    }
    depth++;
    result = PyObject_Call(method, args, kwargs);
    depth--;
    Py_DECREF(method);
    return result;
}

PyDoc_STRVAR(run_backward_doc,
             "run_backward(*args, **kwargs)\n--\n\n"
             "As the engine's own, and tells ImpactArbiter afterwards.");

static PyObject *
engine_run_backward(PyObject *self, PyObject *args, PyObject *kwargs)
{
    /* A checkpoint runs a backward inside a backward, on a deep graph or a
     * GPU in another thread: only the engine knows that one. */
    int outermost = depth == 0 && !ia_autograd_in_graph_task();
    if (outermost) {
        ia_api->backward_begins();
    }
    PyObject *result =
        call_original(((ia_engine *)self)->original, args, kwargs);

    if (result != NULL && outermost) {
        ia_api->event(IA_EVENT_BACKWARD);
    }
    return result;
}

static int
engine_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((ia_engine *)self)->original);
    return 0;
}

static int
engine_clear(PyObject *self)
{
    Py_CLEAR(((ia_engine *)self)->original);
    return 0;
}

static void
engine_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    engine_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef engine_methods[] = {
    {"run_backward", (PyCFunction)(void (*)(void))engine_run_backward,
     METH_VARARGS | METH_KEYWORDS, run_backward_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot engine_slots[] = {
    {Py_tp_methods, engine_methods}, {Py_tp_traverse, engine_traverse},
    {Py_tp_clear, engine_clear},     {Py_tp_dealloc, engine_dealloc},
    {Py_tp_free, PyObject_GC_Del},   {0, NULL},
};

static PyType_Spec engine_spec = {
    .name = "impactarbiter._torch.Engine",
    .basicsize = sizeof(ia_engine),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = engine_slots,
};

int
ia_backward_init(PyObject *module, ia_torch_state *state)
{
    PyObject *base = NULL;
    int result = -1;

    base = PyObject_GetAttrString(state->torch_c, "_ImperativeEngine");
    if (base == NULL) {
        goto done;
    }
    if (((PyTypeObject *)base)->tp_basicsize != sizeof(PyObject)) {
        PyErr_SetString(PyExc_ImportError,
                        "torch's engine object has fields of its own; this "
                        "version of torch is not supported");
        goto done;
    }
    state->engine_type = PyType_FromModuleAndSpec(module, &engine_spec, base);
    if (state->engine_type == NULL) {
        goto done;
    }
    result = 0;
done:
    Py_XDECREF(base);
    return result;
}

static PyObject *
make_engine(ia_torch_state *state, PyObject *original)
{
    PyTypeObject *type = (PyTypeObject *)state->engine_type;
    ia_engine *engine = (ia_engine *)type->tp_alloc(type, 0);
    if (engine != NULL) {
        engine->original = Py_NewRef(original);
    }
    return (PyObject *)engine;
}

/* Refuses, without an error, where an engine of somebody else is in force:
 * its other methods would be lost behind ours. */
static int
replace_engine(ia_torch_state *state, PyObject *current)
{
    PyTypeObject *base = ((PyTypeObject *)state->engine_type)->tp_base;
    PyObject *engine;

    if (Py_TYPE(current) != base) {
        return 0;
    }
    engine = make_engine(state, current);
    if (engine == NULL) {
        return -1;
    }
    Py_XSETREF(state->engine, engine);
    return PyObject_SetAttrString(state->variable, "_execution_engine",
                                  engine);
}

/* 1, 0 or -1 with an exception set. */
static int
engine_is_ours(ia_torch_state *state, PyObject **current)
{
    *current = PyObject_GetAttrString(state->variable, "_execution_engine");
    if (*current == NULL) {
        return -1;
    }
    return state->engine != NULL && *current == state->engine;
}

int
ia_backward_install(ia_torch_state *state)
{
    PyObject *current = NULL;
    int result = engine_is_ours(state, &current);

    if (result == 0) {
        result = replace_engine(state, current);
    }
    Py_XDECREF(current);
    return result < 0 ? -1 : 0;
}

int
ia_backward_uninstall(ia_torch_state *state)
{
    PyObject *current = NULL;
    int result = engine_is_ours(state, &current);

    if (result > 0) {
        result =
            PyObject_SetAttrString(state->variable, "_execution_engine",
                                   ((ia_engine *)state->engine)->original);
    }
    Py_XDECREF(current);
    return result < 0 ? -1 : 0;
}

int
ia_backward_installed(ia_torch_state *state)
{
    PyObject *current = NULL;
    int result = engine_is_ours(state, &current);

    Py_XDECREF(current);
    return result;
}
