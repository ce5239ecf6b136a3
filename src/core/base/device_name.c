/* What a device is called. */

#include "device_name.h"

#include <stdio.h>
#include <string.h>

/* The first twelve never change. */
const char *const ia_device_types[IA_DEVICE_TYPES] = {
    "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
    "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps", "meta",
    "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone"};

/* Written once each, under the GIL, before its code is given out. */
static char named[IA_MOST_DEVICES][24];

uint16_t
ia_device_named(const char *name)
{
    unsigned i = 0;
    while (i < IA_MOST_DEVICES - 1 && named[i][0] != 0 &&
           strncmp(named[i], name, sizeof named[i] - 1) != 0)
        i++;
    if (i == IA_MOST_DEVICES - 1)
        name = "other";
    if (named[i][0] == 0)
        snprintf(named[i], sizeof named[i], "%s", name);
    return (uint16_t)(IA_DEVICE_NAMED << 8 | i);
}

void
ia_device_name(uint16_t device, char *out, size_t size)
{
    unsigned type = device >> 8, index = device & 0xFF;
    if (device == IA_DEVICE_NUMPY)
        snprintf(out, size, "numpy");
    else if (type == IA_DEVICE_NAMED && index < IA_MOST_DEVICES)
        snprintf(out, size, "%s", named[index]);
    else if (type >= IA_DEVICE_TYPES)
        snprintf(out, size, "device%u:%u", type, index);
    else if (type == 0 || type == 14)
        snprintf(out, size, "%s", ia_device_types[type]);
    else
        snprintf(out, size, "%s:%u", ia_device_types[type], index);
}
