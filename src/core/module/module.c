/* impactarbiter._core: slots only; methods.h says where the functions are. */

#include "../base/core_api.h"
#include "../base/errors.h"
#include "../ledger/ledger.h"
#include "api.h"
#include "constants.h"
#include "methods.h"

static int
exec(PyObject *module)
{
    /* One ledger, one heap: the slot below refuses only those interpreters
     * that ask for it. */
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "impactarbiter works in the main interpreter only");
        return -1;
    }
    if (ia_ledger_init() < 0)
        return ia_no_memory();
    if (PyModule_AddFunctions(module, ia_accounts_methods) < 0 ||
        PyModule_AddFunctions(module, ia_questions_methods) < 0 ||
        PyModule_AddFunctions(module, ia_traces_methods) < 0)
        return -1;
    PyObject *capsule =
        PyCapsule_New((void *)&ia_api, IA_API_CAPSULE, NULL);
    if (capsule == NULL)
        return -1;
    int bad = PyModule_AddObjectRef(module, "_api", capsule);
    Py_DECREF(capsule);
    return bad < 0 ? -1 : ia_constants_add(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, exec},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "impactarbiter._core",
    .m_doc = "Ledger, criterion and heap walk.",
    .m_methods = ia_watching_methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
