/* impactarbiter._torch: method table, module slots and state; no logic.
 *
 * The hooks serve the whole process, so one module object may live at a
 * time, and the core's table is kept for ever: a deleter may need it after
 * the module is gone.
 */
#include "hooks.h"

#include "../core/base/core_import.h"

const ia_core_api *ia_api;
static int alive; /* GIL */

static ia_torch_state *
get_state(PyObject *module)
{
    return (ia_torch_state *)PyModule_GetState(module);
}

PyDoc_STRVAR(register_doc,
             "register()\n--\n\n"
             "Tell the core how to look into torch's objects; no hooks.");

static PyObject *
torch_register(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (ia_api->register_framework(ia_autograd_framework()) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(install_doc,
             "install()\n--\n\n"
             "Put the allocator, tensor and engine hooks in place.\n\n"
             "Idempotent. Raises RuntimeError where torch refuses.");

static PyObject *
torch_install(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    ia_torch_state *state = get_state(module);

    if (!state->counts_threads) {
        ia_loose_install();
        state->counts_threads = 1;
    }
    if (ia_allocator_install() < 0 || ia_tensor_install(state) < 0 ||
        ia_module_install(state) < 0 || ia_backward_install(state) < 0 ||
        ia_storage_install(state) < 0) {
        return NULL;
    }
    ia_share_install(state);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(uninstall_doc,
             "uninstall()\n--\n\n"
             "Restore what is still ours; blocks that live on stay valid.");

static PyObject *
torch_uninstall(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    ia_torch_state *state = get_state(module);
    int failed = ia_backward_uninstall(state) < 0;

    failed |= ia_tensor_uninstall(state) < 0;
    failed |= ia_module_uninstall(state) < 0;
    failed |= ia_storage_uninstall(state) < 0;
    ia_share_uninstall();
    ia_allocator_uninstall();
    if (state->counts_threads) {
        ia_loose_uninstall();
        state->counts_threads = 0;
    }
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(installed_doc,
             "installed()\n--\n\n"
             "Which hooks are in place right now: a dict of bool.");

static PyObject *
torch_installed(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    ia_torch_state *state = get_state(module);
    int backward = ia_backward_installed(state);

    if (backward < 0) {
        return NULL;
    }
    return Py_BuildValue("{s:O,s:O,s:O,s:O,s:O}", "allocator",
                         ia_allocator_installed() ? Py_True : Py_False,
                         "tensor",
                         ia_tensor_installed(state) ? Py_True : Py_False,
                         "module",
                         ia_module_installed(state) ? Py_True : Py_False,
                         "backward", backward ? Py_True : Py_False, "threads",
                         ia_loose_installed() ? Py_True : Py_False);
}

PyDoc_STRVAR(rescan_doc, "rescan()\n--\n\n"
                         "Hook the tensor and module classes created since "
                         "install().");

static PyObject *
torch_rescan(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    ia_torch_state *state = get_state(module);

    if (ia_tensor_rescan(state) < 0 || ia_module_rescan(state) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    graph_size_doc,
    "graph_size(tensor, limit=1_000_000)\n--\n\n"
    "Count what tensor.grad_fn keeps.\n\n"
    "Returns (nodes, saved_tensors, saved_bytes, reached_limit); bytes are\n"
    "those of distinct storages. Runs no user code. Raises RuntimeError\n"
    "while another thread may be changing the graph.");

static PyObject *
torch_graph_size(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tensor", "limit", NULL};
    PyObject *tensor;
    Py_ssize_t limit = 1000000;
    ia_graph_size size = {0};
    int found;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|n:graph_size", names,
                                     get_state(module)->tensor_base, &tensor,
                                     &limit)) {
        return NULL;
    }
    found = ia_graph_measure(tensor, limit < 0 ? 0 : (size_t)limit, &size);
    if (found < 0) {
        return NULL;
    }
    if (found == 0) {
        PyErr_SetString(PyExc_RuntimeError,
                        "another thread is busy in torch; try again");
        return NULL;
    }
    return Py_BuildValue(
        "nnnO", (Py_ssize_t)size.nodes, (Py_ssize_t)size.saved_tensors,
        (Py_ssize_t)size.saved_bytes, size.reached_limit ? Py_True : Py_False);
}

PyDoc_STRVAR(walk_failures_doc,
             "walk_failures()\n--\n\n"
             "How often a look at one of torch's objects had to be given up.");

static PyObject *
torch_walk_failures(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong(ia_failures());
}

PyDoc_STRVAR(object_bytes_doc,
             "object_bytes()\n--\n\n"
             "Bytes that a tensor of a storage of its own takes in C++ besides\n"
             "its numbers, at least.");

static PyObject *
torch_object_bytes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromSize_t(ia_tensor_object_bytes());
}

PyDoc_STRVAR(pause_compiler_doc,
             "pause_compiler()\n--\n\n"
             "Have Dynamo leave what begins on this thread alone; what to give\n"
             "to resume_compiler(), or None where it would.");

static PyObject *
torch_pause_compiler(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *paused = ia_dynamo_pause();

    return paused != NULL ? paused : Py_NewRef(Py_None);
}

PyDoc_STRVAR(resume_compiler_doc,
             "resume_compiler(paused)\n--\n\nHave it go on.");

static PyObject *
torch_resume_compiler(PyObject *Py_UNUSED(module), PyObject *paused)
{
    ia_dynamo_resume(Py_NewRef(paused));
    Py_RETURN_NONE;
}

static PyMethodDef torch_methods[] = {
    {"register", torch_register, METH_NOARGS, register_doc},
    {"install", torch_install, METH_NOARGS, install_doc},
    {"uninstall", torch_uninstall, METH_NOARGS, uninstall_doc},
    {"installed", torch_installed, METH_NOARGS, installed_doc},
    {"rescan", torch_rescan, METH_NOARGS, rescan_doc},
    {"graph_size", (PyCFunction)(void (*)(void))torch_graph_size,
     METH_VARARGS | METH_KEYWORDS, graph_size_doc},
    {"walk_failures", torch_walk_failures, METH_NOARGS, walk_failures_doc},
    {"pause_compiler", torch_pause_compiler, METH_NOARGS, pause_compiler_doc},
    {"resume_compiler", torch_resume_compiler, METH_O, resume_compiler_doc},
    {"object_bytes", torch_object_bytes, METH_NOARGS, object_bytes_doc},
    {NULL, NULL, 0, NULL},
};

/* A new reference to module.name, or NULL with an exception set. */
static PyObject *
import_from(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *found = NULL;

    if (module != NULL) {
        found = PyObject_GetAttrString(module, name);
        Py_DECREF(module);
    }
    return found;
}

static int
import_torch(ia_torch_state *state)
{
    /* torch first: it loads the libraries that torch._C needs. */
    return (state->torch_c = import_from("torch", "_C")) == NULL ||
                   (state->tensor_base =
                        import_from("torch._C", "TensorBase")) == NULL ||
                   (state->storage_base =
                        import_from("torch._C", "StorageBase")) == NULL ||
                   (state->function_base =
                        import_from("torch._C", "_FunctionBase")) == NULL ||
                   (state->variable =
                        import_from("torch.autograd", "Variable")) == NULL ||
                   (state->module_class =
                        import_from("torch.nn", "Module")) == NULL ||
                   (state->optimizer_class =
                        import_from("torch.optim", "Optimizer")) == NULL
               ? -1
               : 0;
}

static int
torch_exec(PyObject *module)
{
    ia_torch_state *state = get_state(module);

    if (alive) {
        PyErr_SetString(PyExc_ImportError,
                        "impactarbiter._torch can be loaded only once");
        return -1;
    }
    ia_api = ia_core_import("impactarbiter._torch");
    if (ia_api == NULL || import_torch(state) < 0 ||
        ia_autograd_init(state) < 0 || ia_backward_init(module, state) < 0) {
        return -1;
    }
    ia_optimizer_classes_init(state);
    ia_script_init(state);
    ia_dynamo_init(state);
    alive = 1;
    return 0;
}

static int
torch_traverse(PyObject *module, visitproc visit, void *arg)
{
    ia_torch_state *state = get_state(module);

    Py_VISIT(state->torch_c);
    Py_VISIT(state->tensor_base);
    Py_VISIT(state->storage_base);
    Py_VISIT(state->function_base);
    Py_VISIT(state->variable);
    Py_VISIT(state->module_class);
    Py_VISIT(state->optimizer_class);
    Py_VISIT(state->set_eval_frame);
    Py_VISIT(state->engine_type);
    Py_VISIT(state->engine);
    return 0;
}

static int
torch_clear(PyObject *module)
{
    ia_torch_state *state = get_state(module);

    Py_CLEAR(state->torch_c);
    Py_CLEAR(state->tensor_base);
    Py_CLEAR(state->storage_base);
    Py_CLEAR(state->function_base);
    Py_CLEAR(state->variable);
    Py_CLEAR(state->module_class);
    Py_CLEAR(state->optimizer_class);
    Py_CLEAR(state->set_eval_frame);
    Py_CLEAR(state->engine_type);
    Py_CLEAR(state->engine);
    return 0;
}

/* At the end of the interpreter torch's own types may be half gone: the
 * hooks stay where they are, and say nothing more. */
static void
torch_free(void *module)
{
    ia_tensor_silence();
    ia_module_silence();
    ia_allocator_silence();
    ia_share_silence();
    ia_storage_silence();
    ia_optimizer_classes_silence();
    ia_dynamo_silence();
    torch_clear((PyObject *)module);
}

static PyModuleDef_Slot torch_slots[] = {
    {Py_mod_exec, torch_exec},
    {0, NULL},
};

static struct PyModuleDef torch_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "impactarbiter._torch",
    .m_doc = PyDoc_STR("Hooks into torch and a view of its autograd graph."),
    .m_size = sizeof(ia_torch_state),
    .m_methods = torch_methods,
    .m_slots = torch_slots,
    .m_traverse = torch_traverse,
    .m_clear = torch_clear,
    .m_free = torch_free,
};

PyMODINIT_FUNC
PyInit__torch(void)
{
    return PyModuleDef_Init(&torch_module);
}
