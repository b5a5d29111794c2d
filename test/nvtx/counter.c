/* A profiler for the test: NVTX loads it (NVTX_INJECTION64_PATH), and it counts the ranges of each name in the domain "cusight". */
#include "counter.h"

#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 256 };

static struct {
    const char *name;
    int count;
} ranges[NAMES];
static int opened, closed, foreign;
static int domains[2]; /* handles: another domain, and ours */

static nvtxDomainHandle_t NVTX_API createDomain(const char *name) {
    return (nvtxDomainHandle_t)&domains[strcmp(name, "cusight") == 0];
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range) {
    foreign +=
        (void *)domain != &domains[1] || range->version != NVTX_VERSION || range->messageType != NVTX_MESSAGE_TYPE_ASCII;
    ++opened;
    for (int i = 0; i < NAMES; ++i) {
        if (!ranges[i].name)
            ranges[i].name = strdup(range->message.ascii);
        if (strcmp(ranges[i].name, range->message.ascii) == 0) {
            ++ranges[i].count;
            break;
        }
    }
    return opened - closed - 1;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
    foreign += (void *)domain != &domains[1];
    ++closed;
    return opened - closed;
}

int counterOf(const char *name) {
    for (int i = 0; i < NAMES && ranges[i].name; ++i)
        if (strcmp(ranges[i].name, name) == 0)
            return ranges[i].count;
    return 0;
}
int counterOpen(void) {
    return opened - closed;
}
int counterForeign(void) {
    return foreign;
}

/* What NVTX calls after loading this library. */
int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getExportTable);
int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getExportTable) {
    const NvtxExportTableCallbacks *callbacks = getExportTable(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)createDomain;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
