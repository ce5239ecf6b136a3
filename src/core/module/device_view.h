/* Devices as Python sees them: functions of _core. */
#ifndef IA_DEVICE_VIEW_H
#define IA_DEVICE_VIEW_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *ia_device_rules_method(PyObject *, PyObject *);
PyObject *ia_device_follow_method(PyObject *, PyObject *);
PyObject *ia_device_events_method(PyObject *, PyObject *);
PyObject *ia_devices_method(PyObject *, PyObject *);

#endif /* IA_DEVICE_VIEW_H */
