/* Tensors of TensorFlow. */
#include "hooks.h"

ia_array_class ia_tensorflow;

int
ia_tensorflow_init(PyObject *tensor_class)
{
    (void)tensor_class;
    return 0;
}

void
ia_tensorflow_clear(void)
{
}
