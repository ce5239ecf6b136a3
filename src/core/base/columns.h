/* Rows that NumPy reads: a struct's fields and the names and types of the
 * columns stand in one list,
 *
 *   #define IA_X_COLUMNS(C) C(u8, address) C(u4, site)
 *   typedef struct { IA_X_COLUMNS(IA_ROW_FIELD) } ia_x;
 *   static const ia_column columns[] = {IA_X_COLUMNS(IA_ROW_COLUMN)};
 */
#ifndef IA_COLUMNS_H
#define IA_COLUMNS_H

#include <stdint.h>

#define IA_ROW_f8 double
#define IA_ROW_u8 uint64_t
#define IA_ROW_u4 uint32_t
#define IA_ROW_u2 uint16_t

#define IA_ROW_FIELD(type, name) IA_ROW_##type name;
#define IA_ROW_COLUMN(type, name) {#name, "<" #type},
/* The same as text, as the header of an .npy file has it. */
#define IA_ROW_TEXT(type, name) "('" #name "', '<" #type "'), "

typedef struct {
    const char *name;
    const char *type;
} ia_column;

#endif /* IA_COLUMNS_H */
