/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's names of integers, where its own declarations are not there: in Rust's bindings, and in tests on the host.
 */
#ifndef LIMELIGHT_INT_TYPES_H
#define LIMELIGHT_INT_TYPES_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
#endif

#endif /* LIMELIGHT_INT_TYPES_H */
