/* status.c - the names of statuses, and each thread's last message. */
#include <stdarg.h>
#include <stdio.h>

#include "tensor_impl.h"

static _Thread_local char last_message[512];

const char *lab_status_name(lab_status status)
{
    switch (status) {
#define LAB_STATUS_CASE(name, number, meaning)                                                                         \
    case name:                                                                                                         \
        return #name;
        LAB_STATUS_LIST(LAB_STATUS_CASE)
#undef LAB_STATUS_CASE
    }
    return "unknown status";
}

const char *lab_last_message(void)
{
    return last_message;
}

void lab__set_last_message(const char *sentence)
{
    snprintf(last_message, sizeof last_message, "%s", sentence);
}

lab_status lab__fail(lab_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_message, sizeof last_message, format, arguments);
    va_end(arguments);
    return status;
}
