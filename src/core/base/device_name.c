/* What a device is called. */

#include "device_name.h"

#include <stdio.h>

/* The first twelve never change. */
const char *const ia_device_types[IA_DEVICE_TYPES] = {
    "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
    "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps", "meta",
    "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone"};

void
ia_device_name(uint16_t device, char *out, size_t size)
{
    unsigned type = device >> 8, index = device & 0xFF;
    if (device == IA_DEVICE_NUMPY)
        snprintf(out, size, "numpy");
    else if (type >= IA_DEVICE_TYPES)
        snprintf(out, size, "device%u:%u", type, index);
    else if (type == 0 || type == 14)
        snprintf(out, size, "%s", ia_device_types[type]);
    else
        snprintf(out, size, "%s:%u", ia_device_types[type], index);
}
