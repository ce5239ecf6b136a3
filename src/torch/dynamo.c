/* While a compiled function runs on a thread, Dynamo, torch's compiler, takes
 * every call of Python code that begins there for the program's, and may
 * compile it.  What a look runs there is ours.
 */
#include "hooks.h"

static PyObject *set_eval_frame; /* borrowed from the module's state */

/* A torch without it has no such compiler, or another. */
void
ia_dynamo_init(ia_torch_state *state)
{
    PyObject *module = PyImport_ImportModule("torch._C._dynamo.eval_frame");
    if (module != NULL)
        state->set_eval_frame =
            PyObject_GetAttrString(module, "set_eval_frame");
    Py_XDECREF(module);
    PyErr_Clear();
    if (state->set_eval_frame != NULL &&
        PyCFunction_CheckExact(state->set_eval_frame))
        set_eval_frame = state->set_eval_frame;
}

void
ia_dynamo_silence(void)
{
    set_eval_frame = NULL;
}

PyObject *
ia_dynamo_pause(void)
{
    if (set_eval_frame == NULL)
        return NULL;
    PyObject *before = PyObject_CallOneArg(set_eval_frame, Py_None);
    if (before == NULL)
        PyErr_Clear();
    else if (before == Py_None)
        Py_CLEAR(before);
    return before;
}

void
ia_dynamo_resume(PyObject *before)
{
    if (set_eval_frame != NULL) {
        PyObject *ours = PyObject_CallOneArg(set_eval_frame, before);
        if (ours == NULL)
            PyErr_Clear();
        Py_XDECREF(ours);
    }
    Py_DECREF(before);
}
