/* The storages that a walk meets. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/device_name.h"
#include "../ledger/arrays.h"
#include "../ledger/journal.h"
#include "../ledger/sites.h"
#include "reached.h"

#include <stdlib.h>

void
ia_storages_free(ia_storages *s)
{
    free(s->items);
    free(s->beside);
    ia_ptrmap_free(&s->index);
    *s = (ia_storages){0};
}

void
ia_storages_add_beside(ia_storages *s, ia_reached *item, uint32_t entry)
{
    if (IA_ROOM(s->beside, s->beside_room, (uint64_t)s->nbeside + 2) < 0)
        return;
    s->beside[++s->nbeside] = (ia_beside){entry, item->beside};
    item->beside = s->nbeside;
}

static ia_reached *
add_storage(ia_storages *s, const ia_reached *new, uintptr_t also)
{
    if (IA_ROOM(s->items, s->capacity, s->count + 1) < 0)
        return NULL;
    if (ia_ptrmap_set(&s->index, new->key, s->count) < 0)
        return NULL;
    /* A tensor and an array may share a block that the ledger doesn't know. */
    if (also != 0 && also != new->key &&
        ia_ptrmap_set(&s->index, also, s->count) < 0)
        return NULL;
    s->items[s->count] = *new;
    return &s->items[s->count++];
}

/* What the ledger knows of it, if anything. */
static void
read_row(ia_reached *one, const ia_storage *storage)
{
    ia_ledger_lock();
    ia_row *row = ia_ledger_find(storage->data);
    if (row == NULL)
        row = ia_ledger_find(storage->impl);
    if (row != NULL) {
        one->key = row->key;
        one->bytes = row->bytes;
        one->stack = row->stack;
        one->site = ia_stack_site(row->stack);
        one->generation = row->generation;
        one->position = row->position;
        one->allowed = row->allowed;
        one->in_ledger = 1;
    }
    ia_ledger_unlock();
}

/* Several storages may lie on one array's memory.  The ledger knows each by its
 * own object, and may not know the array, where that is small. */
static ia_reached *
known_by(ia_storages *s, uint32_t i, const ia_storage *storage)
{
    ia_reached *one = &s->items[i];
    if (storage->impl == 0 || one->key == storage->impl ||
        (one->in_ledger && one->key == storage->data) ||
        ia_ptrmap_get(&s->index, storage->impl) != IA_PTRMAP_NONE)
        return one;
    if (!one->in_ledger)
        read_row(one, storage);
    one->memory |= one->in_ledger;
    return ia_ptrmap_set(&s->index, storage->impl, i) < 0 ? NULL : one;
}

/* A storage is listed under the key that the ledger knows it by; one that it
 * doesn't know, under that of its own object. */
ia_reached *
ia_storages_get(ia_storages *s, const ia_storage *storage)
{
    uint32_t i = IA_PTRMAP_NONE;
    if (storage->data != 0)
        i = ia_ptrmap_get(&s->index, storage->data);
    if (i == IA_PTRMAP_NONE && storage->impl != 0)
        i = ia_ptrmap_get(&s->index, storage->impl);
    if (i != IA_PTRMAP_NONE)
        return known_by(s, i, storage);
    ia_reached new = {
        .key = storage->impl ? storage->impl : storage->data,
        .memory = storage->data != 0 && storage->bytes > 0 &&
                  (storage->device != IA_DEVICE_NUMPY ||
                   (storage->bytes >= IA_LEAST_ARRAY &&
                    ia_arrays_installed())),
        .bytes = storage->bytes,
        .device = storage->device,
        .entry = IA_NO_ENTRY,
    };
    read_row(&new, storage);
    return new.key == 0 ? NULL : add_storage(s, &new, storage->data);
}
