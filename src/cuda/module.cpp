/* impactarbiter._cuda: method table and module slots; no logic. */
#include "hooks.h"

#include "../core/base/core_import.h"

const ia_core_api *ia_api;

namespace {

PyDoc_STRVAR(attach_doc,
             "attach()\n--\n\n"
             "Have the CUDA allocator's events reported; idempotent.\n\n"
             "Raises RuntimeError while CUDA is not initialized, and where\n"
             "the allocator in force reports nothing.");

PyObject *
attach(PyObject *, PyObject *)
{
    return ia_trace_attach() < 0 ? nullptr : Py_NewRef(Py_None);
}

PyDoc_STRVAR(silence_doc,
             "silence()\n--\n\nReport nothing until the next attach().");

PyObject *
silence(PyObject *, PyObject *)
{
    ia_trace_silence();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(attached_doc, "attached()\n--\n\nAre events reported now?");

PyObject *
is_attached(PyObject *, PyObject *)
{
    return PyBool_FromLong(ia_trace_attached());
}

PyDoc_STRVAR(allocator_doc,
             "allocator()\n--\n\n"
             "\"native\", \"cudaMallocAsync\" or \"pluggable\".");

PyObject *
allocator_name(PyObject *, PyObject *)
{
    return ia_trace_allocator();
}

PyDoc_STRVAR(rules_doc,
             "rules()\n--\n\n"
             "(max_split_size, roundup_power2_divisions) as configured.");

PyObject *
rules(PyObject *, PyObject *)
{
    return ia_trace_rules();
}

PyDoc_STRVAR(torch_version_doc,
             "torch_version()\n--\n\n"
             "The version of torch that this module was compiled against.");

PyObject *
torch_version(PyObject *, PyObject *)
{
    return PyUnicode_FromString(ia_trace_torch_version());
}

PyMethodDef methods[] = {
    {"attach", attach, METH_NOARGS, attach_doc},
    {"silence", silence, METH_NOARGS, silence_doc},
    {"attached", is_attached, METH_NOARGS, attached_doc},
    {"allocator", allocator_name, METH_NOARGS, allocator_doc},
    {"rules", rules, METH_NOARGS, rules_doc},
    {"torch_version", torch_version, METH_NOARGS, torch_version_doc},
    {nullptr, nullptr, 0, nullptr},
};

int
exec(PyObject *)
{
    ia_api = ia_core_import("impactarbiter._cuda");
    return ia_api == nullptr ? -1 : 0;
}

/* The callback stays attached; at the end of the interpreter there is nothing
 * left to report to. */
void
at_end(void *)
{
    ia_trace_silence();
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void *>(exec)},
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "impactarbiter._cuda",
    PyDoc_STR("Events of torch's CUDA allocator."),
    0,
    methods,
    slots,
    nullptr,
    nullptr,
    at_end,
};

} // namespace

PyMODINIT_FUNC
PyInit__cuda(void)
{
    return PyModuleDef_Init(&definition);
}
