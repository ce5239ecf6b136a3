/* What a device is called. */

#include "device_name.h"

#include <stdio.h>

/* c10::DeviceType by number; the first twelve never change. */
void
ia_device_name(uint16_t device, char *out, size_t size)
{
    static const char *const names[] = {
        "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
        "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps", "meta",
        "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone"};
    unsigned type = device >> 8, index = device & 0xFF;
    if (type >= sizeof names / sizeof *names)
        snprintf(out, size, "device%u:%u", type, index);
    else if (type == 0 || type == 14)
        snprintf(out, size, "%s", names[type]);
    else
        snprintf(out, size, "%s:%u", names[type], index);
}
