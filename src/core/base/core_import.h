/* How a framework module gets at the core's table. */
#ifndef IA_CORE_IMPORT_H
#define IA_CORE_IMPORT_H

#include "core_api.h"

/* The table, or NULL with an exception set; `who` is the asking module. */
static inline const ia_core_api *
ia_core_import(const char *who)
{
    /* PyCapsule_Import() itself imports the package alone. */
    PyObject *core = PyImport_ImportModule("impactarbiter._core");
    const ia_core_api *api;

    if (core == NULL) {
        return NULL;
    }
    Py_DECREF(core);
    api = (const ia_core_api *)PyCapsule_Import(IA_API_CAPSULE, 0);
    if (api != NULL && api->version != IA_API_VERSION) {
        PyErr_Format(PyExc_ImportError,
                     "impactarbiter._core has interface %d, %s needs %d; "
                     "reinstall both",
                     api->version, who, IA_API_VERSION);
        return NULL;
    }
    return api;
}

#endif /* IA_CORE_IMPORT_H */
