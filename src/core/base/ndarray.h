/* What a NumPy array holds, and where. */
#ifndef IA_NDARRAY_H
#define IA_NDARRAY_H

#include "core_api.h"

/* Binds NumPy's C API, and imports NumPy where nobody has: 0, or -1 with an
 * exception set.  Until then no object is an array, and none is asked. */
int ia_ndarray_bind(void);
int ia_ndarray_is_bound(void);
/* Are instances of this class arrays, or a structured array's records, which
 * are to all of these as views of it? */
int ia_ndarray_is_class(PyTypeObject *);

/* Calls visit for each object that a NumPy array holds: its base, the objects
 * in it, and what an instance of a subclass has besides. */
int ia_ndarray_traverse(PyObject *, visitproc, void *);
/* The first two of these, which tp_traverse never shows. */
int ia_ndarray_traverse_hidden(PyObject *, visitproc, void *);

int ia_ndarray_has_objects(PyObject *);

/* The block of memory that an array owns: 1 and *block filled, 0 where it
 * shows another's. */
int ia_ndarray_block(PyObject *, ia_storage *block);
/* Is that the array whose memory this one shows, its own or its base's? */
int ia_ndarray_shows(PyObject *, PyObject *array);
/* Its shape and dtype, and the bytes of the block that it shows. */
void ia_ndarray_describe(PyObject *, ia_tensor_info *);

typedef enum {
    IA_IN_ARRAY_NOT, /* among a subclass's own attributes, if anywhere */
    IA_IN_ARRAY_BASE,
    IA_IN_ARRAY_ITEM,
} ia_in_array;

typedef struct {
    int dims;
    Py_ssize_t index; /* in C order */
    char field[120];  /* "['obs']" in a structured array, or empty */
    int plain;        /* the field's text is what one would write */
} ia_array_place;

/* Where an array holds child. */
ia_in_array ia_ndarray_place(PyObject *, PyObject *child, ia_array_place *);

#endif /* IA_NDARRAY_H */
