/* Calls of top-level modules: tp_call of torch.nn.Module and its subclasses.
 *
 * A module that is called while none is being called on this thread is a
 * top-level one; its successful end is the weakest event that ends a step.
 * A module whose class has not been looked for yet is called unseen: its
 * children would pass for top-level ones, did Module._call_impl not stand on
 * the stack.  The slot is invisible to Python: no hook of the user's is touched, and
 * Module.__call__ stays what it was.  All of this runs with the GIL held.
 */
#include "../core/base/thread.h"
#include "hooks.h"

/* Births of tensors after which new classes are looked for: a model's class
 * is often created after us.  The pause grows eightfold up to the last one. */
#define FIRST_RESCAN 64
#define LAST_RESCAN ((uint64_t)1 << 20)

static ternaryfunc original_call; /* slot_tp_call, as Module has it */
static PyTypeObject *hooked;      /* Module; borrowed while reporting */
static int reporting;
static uint64_t births, next_rescan;
static IA_OF_THREAD int depth;
static const void *call_impl; /* code of Module._call_impl, compared only */

static void
end_of_call(void)
{
    if (call_impl != NULL && ia_api->is_running(call_impl)) {
        births = next_rescan; /* its class must be new */
        return;
    }
    ia_api->event(IA_EVENT_MODULE);
}

static PyObject *
module_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    depth++;
    PyObject *result = original_call(self, args, kwargs);
    if (--depth == 0 && result != NULL && reporting) {
        end_of_call();
    }
    return result;
}

/* A class with a tp_call of its own (of C) keeps it. */
static void
hook_class(PyTypeObject *type)
{
    if (type->tp_call == original_call) {
        type->tp_call = module_call;
    }
}

static void
unhook_class(PyTypeObject *type)
{
    if (type->tp_call == module_call) {
        type->tp_call = original_call;
    }
}

static void
find_call_impl(PyObject *module_class)
{
    PyObject *f = PyObject_GetAttrString(module_class, "_call_impl");
    call_impl = f != NULL && PyFunction_Check(f) ? PyFunction_GET_CODE(f)
                                                 : NULL;
    Py_XDECREF(f);
    PyErr_Clear();
}

int
ia_module_install(ia_torch_state *state)
{
    PyTypeObject *base = (PyTypeObject *)state->module_class;

    if (original_call == NULL) {
        original_call = base->tp_call;
    }
    find_call_impl(state->module_class);
    hooked = base;
    reporting = 1;
    births = 0;
    next_rescan = FIRST_RESCAN;
    return ia_module_rescan(state);
}

int
ia_module_rescan(ia_torch_state *state)
{
    return reporting ? ia_class_tree_visit(state->module_class, hook_class)
                     : 0;
}

int
ia_module_uninstall(ia_torch_state *state)
{
    reporting = 0;
    return ia_class_tree_visit(state->module_class, unhook_class);
}

/* Whoever sets Module.__call__, as torch.fx does while it traces, has the slots
 * of all classes set anew. */
static int
is_taken_off(void)
{
    return reporting && hooked->tp_call == original_call;
}

int
ia_module_rescan_is_due(void)
{
    if (is_taken_off()) {
        return 1;
    }
    if (++births < next_rescan) {
        return 0;
    }
    births = 0;
    if (next_rescan < LAST_RESCAN) {
        next_rescan *= 8;
    }
    return 1;
}

int
ia_module_installed(ia_torch_state *state)
{
    return reporting &&
           ((PyTypeObject *)state->module_class)->tp_call == module_call;
}

void
ia_module_silence(void)
{
    reporting = 0;
}
