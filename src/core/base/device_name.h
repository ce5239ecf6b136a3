/* What a device is called. */
#ifndef IA_DEVICE_NAME_H
#define IA_DEVICE_NAME_H

#include <stddef.h>
#include <stdint.h>

/* Names of c10::DeviceType, each at its number. */
#define IA_DEVICE_TYPES 21
extern const char *const ia_device_types[IA_DEVICE_TYPES];

/* Where NumPy has its arrays' blocks: no type of c10's. */
#define IA_DEVICE_CPU ((uint16_t)0)
#define IA_DEVICE_NUMPY ((uint16_t)0xFF00)

/* Devices that frameworks other than torch have named, type << 8 | number;
 * the last stands for all that are one too many. */
#define IA_DEVICE_NAMED 0xE0
#define IA_MOST_DEVICES 64
/* The code of a device of that name, the same for the same.  GIL. */
uint16_t ia_device_named(const char *name);
static inline int
ia_device_is_named(uint16_t device)
{
    return device >> 8 == IA_DEVICE_NAMED;
}

/* "cpu", "cuda:0", "numpy", "jax:cpu:0" of device type << 8 | index; needs no GIL and allocates
 * nothing. */
void ia_device_name(uint16_t device, char *out, size_t size);

#endif /* IA_DEVICE_NAME_H */
