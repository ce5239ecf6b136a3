/* Classes of optimizers of which there was ever one.
 *
 * Optimizer.__init__ wraps the step of its class when the first one of it is
 * made, and marks the wrapper: `hooked`.  That is read here, without running
 * any of the classes' code.
 */
#include "hooks.h"

static PyObject *base; /* borrowed from the module's state */
static int found;

static void
count_class(PyTypeObject *type)
{
    PyObject *step = PyDict_GetItemString(type->tp_dict, "step");
    PyObject *marks = step != NULL && PyFunction_Check(step)
                          ? ((PyFunctionObject *)step)->func_dict
                          : NULL;
    found += marks != NULL && PyDict_GetItemString(marks, "hooked") != NULL;
}

void
ia_optimizer_classes_init(ia_torch_state *state)
{
    base = state->optimizer_class;
}

void
ia_optimizer_classes_silence(void)
{
    base = NULL;
}

int
ia_optimizer_classes(void)
{
    found = 0;
    if (base != NULL && ia_class_tree_visit(base, count_class) < 0) {
        PyErr_Clear();
    }
    return found;
}
