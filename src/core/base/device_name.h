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

/* "cpu", "cuda:0", "numpy" of device type << 8 | index; needs no GIL and allocates
 * nothing. */
void ia_device_name(uint16_t device, char *out, size_t size);

#endif /* IA_DEVICE_NAME_H */
