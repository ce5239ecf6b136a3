/* What the capsule hands to the modules that know a framework. */
#ifndef IA_API_H
#define IA_API_H

#include "../base/core_api.h"

extern const ia_core_api ia_api;

#endif /* IA_API_H */
