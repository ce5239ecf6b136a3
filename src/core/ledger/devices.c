/* Devices whose allocator reports to us. */

#include "birthplace.h"
#include "devices.h"
#include "ledger.h"

static struct {
    ia_followed items[IA_MAX_DEVICES];
    int count;
    ia_block_rules rules;
} book = {.rules = {.max_split = UINT64_MAX}};

static ia_followed *
slot_of(uint16_t device)
{
    for (int i = 0; i < book.count; i++)
        if (book.items[i].device == device)
            return &book.items[i];
    if (book.count == IA_MAX_DEVICES)
        return NULL;
    book.items[book.count] = (ia_followed){.device = device};
    return &book.items[book.count++];
}

int
ia_devices_all(const ia_followed **out)
{
    *out = book.items;
    return book.count;
}

void
ia_devices_set_rules(const ia_block_rules *rules)
{
    book.rules = *rules;
}

static int
is_followed(const ia_followed *d)
{
    return d != NULL && d->blocks != NULL && !ia_blocks_broken(d->blocks);
}

int
ia_devices_followed(uint16_t device)
{
    int found = 0;
    ia_ledger_lock();
    for (int i = 0; i < book.count; i++)
        if (book.items[i].device == device)
            found = is_followed(&book.items[i]);
    ia_ledger_unlock();
    return found;
}

static void
forget_blocks(ia_followed *d)
{
    ia_blocks_free(d->blocks);
    d->blocks = NULL;
}

void
ia_devices_reset(void)
{
    ia_ledger_lock();
    for (int i = 0; i < book.count; i++)
        forget_blocks(&book.items[i]);
    book.count = 0;
    ia_places_follow_nodes(0);
    ia_ledger_unlock();
}

int
ia_devices_follow(uint16_t device, const ia_device_event *snapshot,
                  size_t count, uint64_t seen)
{
    ia_blocks *blocks = ia_blocks_new();
    int result = -1;
    if (blocks == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        ia_blocks_apply(blocks, &snapshot[i], &book.rules);
    if (ia_blocks_broken(blocks))
        goto done;
    ia_ledger_lock();
    ia_followed *d = slot_of(device);
    result = d != NULL && d->seen == seen;
    if (result) {
        forget_blocks(d);
        d->blocks = blocks;
        blocks = NULL;
        if (!ia_places_follows_nodes())
            ia_places_follow_nodes(1);
    }
    ia_ledger_unlock();
done:
    ia_blocks_free(blocks);
    return result;
}

/* The lock is held. */
static void
take_in(ia_followed *d, const ia_device_event *e, const ia_place *place)
{
    uint64_t bytes = ia_blocks_apply(d->blocks, e, &book.rules);
    if (e->action == IA_DEVICE_ALLOC && bytes > 0) {
        uint32_t stack = ia_ledger_add(place, (uintptr_t)e->address, bytes,
                                       (uint16_t)e->device);
        ia_places_note_nodes(&place->next, stack);
    } else if (e->action == IA_DEVICE_FREE_REQUESTED && e->address != 0)
        ia_ledger_remove((uintptr_t)e->address);
}

void
ia_devices_event(const ia_device_event *e)
{
    ia_place place;
    uint64_t begin = ia_ledger_hook_begin();
    if (e->action == IA_DEVICE_ALLOC)
        ia_place_capture(&place);
    ia_ledger_lock();
    ia_followed *d = slot_of((uint16_t)e->device);
    if (d != NULL)
        d->seen++;
    if (is_followed(d))
        take_in(d, e, &place);
    ia_ledger_unlock();
    ia_ledger_hook_end(begin);
}

size_t
ia_devices_bytes(void)
{
    ia_ledger_lock();
    size_t bytes = ia_places_bytes();
    for (int i = 0; i < book.count; i++)
        if (book.items[i].blocks != NULL)
            bytes += ia_blocks_bytes(book.items[i].blocks);
    ia_ledger_unlock();
    return bytes;
}
