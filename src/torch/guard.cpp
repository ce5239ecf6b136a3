/* Exceptions of torch's C++ that end here, counted. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "guard.h"

#include <atomic>

namespace {

std::atomic<uint64_t> failures{0};

} // namespace

uint64_t
ia_failures(void)
{
    return failures.load(std::memory_order_relaxed);
}

/* A Python error that a C++ exception carried is dropped with it. */
void
ia_failures_count(void)
{
    failures.fetch_add(1, std::memory_order_relaxed);
    if (PyErr_Occurred()) {
        PyErr_Clear();
    }
}
