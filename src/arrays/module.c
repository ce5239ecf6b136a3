/* impactarbiter._arrays: method table and module slots; no logic.
 *
 * The hooks serve the whole process, so one module object may live at a time.
 */
#include "hooks.h"

#include "../core/base/core_import.h"

const ia_core_api *ia_api;
static int alive; /* GIL */

static PyObject *
done(int result)
{
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(register_doc,
             "register()\n--\n\n"
             "Tell the core how to look into arrays; no hooks.");

static PyObject *
arrays_register(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return done(ia_api->register_framework(ia_arrays_framework()));
}

static int
watch_calls(PyObject *classes, const char *function)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++) {
        PyObject *type = PyTuple_GET_ITEM(classes, i);
        if (ia_calls_watch_type((PyTypeObject *)type, function) < 0)
            return -1;
    }
    return 0;
}

PyDoc_STRVAR(install_jax_doc,
             "install_jax(array_class, function_class, called_classes)\n--\n\n"
             "Watch births and deaths of JAX's arrays and calls of what it\n"
             "compiled.  Idempotent.  Raises RuntimeError or AttributeError\n"
             "where these are not the classes that we know.");

static PyObject *
arrays_install_jax(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *array, *function;
    PyObject *called;
    if (!PyArg_ParseTuple(args, "O!O!O!:install_jax", &PyType_Type, &array,
                          &PyType_Type, &function, &PyTuple_Type, &called))
        return NULL;
    if (ia_jax_init((PyObject *)array) < 0 ||
        ia_calls_watch_instances(function, "_fun") < 0)
        return NULL;
    ia_class_install(&ia_jax);
    return done(watch_calls(called, NULL));
}

PyDoc_STRVAR(know_jax_doc,
             "know_jax(array_class)\n--\n\n"
             "Know JAX's arrays without watching: for explain().");

static PyObject *
arrays_know_jax(PyObject *Py_UNUSED(module), PyObject *array)
{
    return done(ia_jax_init(array));
}

PyDoc_STRVAR(
    install_tensorflow_doc,
    "install_tensorflow(tensor_class, tape_class, called_classes)\n--\n\n"
    "The same for TensorFlow's tensors and the functions that it compiles;\n"
    "objects of tape_class are C++'s gradient tapes.");

static PyObject *
arrays_install_tensorflow(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *tensor, *tape;
    PyObject *called;
    if (!PyArg_ParseTuple(args, "O!O!O!:install_tensorflow", &PyType_Type,
                          &tensor, &PyType_Type, &tape, &PyTuple_Type,
                          &called) ||
        ia_tensorflow_init((PyObject *)tensor, (PyObject *)tape) < 0)
        return NULL;
    ia_class_install(&ia_tensorflow);
    return done(watch_calls(called, "_python_function"));
}

PyDoc_STRVAR(know_tensorflow_doc,
             "know_tensorflow(tensor_class, tape_class)\n--\n\n"
             "Know TensorFlow's tensors without watching: for explain().");

static PyObject *
arrays_know_tensorflow(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *tensor, *tape;
    if (!PyArg_ParseTuple(args, "O!O!:know_tensorflow", &PyType_Type, &tensor,
                          &PyType_Type, &tape))
        return NULL;
    return done(ia_tensorflow_init((PyObject *)tensor, (PyObject *)tape));
}

PyDoc_STRVAR(backward_doc,
             "backward()\n--\n\n"
             "Gradients were taken; ends a step where nothing that was\n"
             "compiled is running.  What is running trains.");

static PyObject *
arrays_backward(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (ia_calls_running())
        ia_calls_train();
    else
        ia_api->event(IA_EVENT_BACKWARD);
    Py_RETURN_NONE;
}

/* No frame of ours is in what the original raises. */
static PyObject *
call_and_train(PyObject *original, PyObject *args, PyObject *kwargs)
{
    ia_calls_train();
    return PyObject_Call(original, args, kwargs);
}

static PyMethodDef training = {"training",
                               (PyCFunction)(void (*)(void))call_and_train,
                               METH_VARARGS | METH_KEYWORDS, NULL};

PyDoc_STRVAR(training_doc,
             "training(function)\n--\n\n"
             "A function that calls this one, its __self__; what compiled is\n"
             "running then trains.");

static PyObject *
arrays_training(PyObject *Py_UNUSED(module), PyObject *function)
{
    return PyCFunction_New(&training, function);
}

PyDoc_STRVAR(watch_function_doc,
             "watch_function(compiled, function)\n--\n\n"
             "A compiled function that was there before.");

static PyObject *
arrays_watch_function(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *compiled, *function;
    if (!PyArg_ParseTuple(args, "OO:watch_function", &compiled, &function))
        return NULL;
    ia_calls_watch_instance(compiled, function);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(program_function_doc,
             "program_function(function)\n--\n\n"
             "What the program wrote of a function that may be wrapped, the\n"
             "innermost; None where all of it is a framework's own.");

static PyObject *
arrays_program_function(PyObject *Py_UNUSED(module), PyObject *function)
{
    PyObject *found = ia_program_function(function);
    return Py_NewRef(found != NULL ? found : Py_None);
}

PyDoc_STRVAR(note_doc, "note(arrays)\n--\n\n"
                       "Arrays of before: a walk knows what they are, the "
                       "ledger\ndoes not.");

static PyObject *
arrays_note(PyObject *Py_UNUSED(module), PyObject *arrays)
{
    PyObject *list = PySequence_List(arrays);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *op = PyList_GET_ITEM(list, i);
        const ia_array_class *c = ia_class_of(Py_TYPE(op));
        if (c != NULL)
            ia_claims_add(c, op, NULL, NULL);
    }
    Py_XDECREF(list);
    return done(list == NULL ? -1 : 0);
}

PyDoc_STRVAR(sweep_doc,
             "sweep()\n--\n\n"
             "Take out of the ledger all arrays that were deleted.");

static PyObject *
arrays_sweep(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    ia_claims_sweep(1);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(forget_doc,
             "forget()\n--\n\n"
             "Forget what is known of arrays, where nothing watches.");

static PyObject *
arrays_forget(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (!ia_jax.reporting && !ia_tensorflow.reporting)
        ia_claims_forget();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(uninstall_doc,
             "uninstall()\n--\n\n"
             "Restore what is still ours, and forget all arrays.");

static PyObject *
arrays_uninstall(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    ia_class_uninstall(&ia_jax);
    ia_class_uninstall(&ia_tensorflow);
    ia_calls_unwatch();
    ia_claims_forget();
    ia_jax_clear();
    ia_tensorflow_clear();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(installed_doc, "installed()\n--\n\n"
                            "Whose arrays are watched: a dict of bool.");

static PyObject *
arrays_installed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *found = PyDict_New();
    if (found != NULL && ia_jax.type != NULL)
        PyDict_SetItemString(found, "jax",
                             ia_class_installed(&ia_jax) ? Py_True : Py_False);
    if (found != NULL && ia_tensorflow.type != NULL)
        PyDict_SetItemString(
            found, "tensorflow",
            ia_class_installed(&ia_tensorflow) ? Py_True : Py_False);
    if (PyErr_Occurred())
        Py_CLEAR(found);
    return found;
}

PyDoc_STRVAR(count_doc, "count()\n--\n\nHow many arrays are known.");

static PyObject *
arrays_count(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLong(ia_claims_count());
}

PyDoc_STRVAR(traced_doc,
             "traced()\n--\n\n"
             "A function is being traced: the listener is told of the call.");

static PyObject *
arrays_traced(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    ia_calls_traced();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(listen_doc,
             "listen(function)\n--\n\n"
             "Call function(compiled, program_function, args, kwargs) after\n"
             "an outermost call that was traced; what it raises is dropped,\n"
             "an int that it gives is the function's number.");

static PyObject *
arrays_listen(PyObject *Py_UNUSED(module), PyObject *function)
{
    ia_calls_set_listener(function == Py_None ? NULL : function);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(calls_doc,
             "calls(number)\n--\n\n"
             "Outermost calls of a function since it was given that number.");

static PyObject *
arrays_calls(PyObject *Py_UNUSED(module), PyObject *number)
{
    size_t n = PyLong_AsSize_t(number);
    if (n == (size_t)-1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLongLong(ia_calls_of(n));
}

static PyMethodDef arrays_methods[] = {
    {"register", arrays_register, METH_NOARGS, register_doc},
    {"install_jax", arrays_install_jax, METH_VARARGS, install_jax_doc},
    {"know_jax", arrays_know_jax, METH_O, know_jax_doc},
    {"install_tensorflow", arrays_install_tensorflow, METH_VARARGS,
     install_tensorflow_doc},
    {"know_tensorflow", arrays_know_tensorflow, METH_VARARGS,
     know_tensorflow_doc},
    {"backward", arrays_backward, METH_NOARGS, backward_doc},
    {"training", arrays_training, METH_O, training_doc},
    {"watch_function", arrays_watch_function, METH_VARARGS,
     watch_function_doc},
    {"program_function", arrays_program_function, METH_O,
     program_function_doc},
    {"note", arrays_note, METH_O, note_doc},
    {"sweep", arrays_sweep, METH_NOARGS, sweep_doc},
    {"forget", arrays_forget, METH_NOARGS, forget_doc},
    {"uninstall", arrays_uninstall, METH_NOARGS, uninstall_doc},
    {"installed", arrays_installed, METH_NOARGS, installed_doc},
    {"count", arrays_count, METH_NOARGS, count_doc},
    {"traced", arrays_traced, METH_NOARGS, traced_doc},
    {"listen", arrays_listen, METH_O, listen_doc},
    {"calls", arrays_calls, METH_O, calls_doc},
    {NULL, NULL, 0, NULL},
};

static int
arrays_exec(PyObject *Py_UNUSED(module))
{
    if (alive) {
        PyErr_SetString(PyExc_ImportError,
                        "impactarbiter._arrays can be loaded only once");
        return -1;
    }
    ia_api = ia_core_import("impactarbiter._arrays");
    alive = ia_api != NULL;
    return alive ? 0 : -1;
}

static int
arrays_traverse(PyObject *Py_UNUSED(module), visitproc visit, void *arg)
{
    return ia_calls_traverse(visit, arg);
}

static int
arrays_clear(PyObject *Py_UNUSED(module))
{
    ia_calls_set_listener(NULL);
    return 0;
}

/* At the end of the interpreter the frameworks' types may be half gone: the
 * hooks stay where they are, and say nothing more. */
static void
arrays_free(void *Py_UNUSED(module))
{
    ia_classes_silence();
    ia_calls_silence();
    ia_claims_forget();
}

static PyModuleDef_Slot arrays_slots[] = {
    {Py_mod_exec, arrays_exec},
    {0, NULL},
};

static struct PyModuleDef arrays_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "impactarbiter._arrays",
    .m_doc = PyDoc_STR("Hooks into JAX and TensorFlow."),
    .m_methods = arrays_methods,
    .m_slots = arrays_slots,
    .m_traverse = arrays_traverse,
    .m_clear = arrays_clear,
    .m_free = arrays_free,
};

PyMODINIT_FUNC
PyInit__arrays(void)
{
    return PyModuleDef_Init(&arrays_module);
}
