//go:build linux

#include "textflag.h"

// func call(function, top uintptr, args *[Arguments]uintptr) uintptr
//
// System V ABI: arguments in DI, SI, DX, CX; R12 survives the call, and the stack
// is aligned to 16 bytes before it.
TEXT ·call(SB), NOSPLIT, $0-32
	MOVQ function+0(FP), AX
	MOVQ top+8(FP), R11
	MOVQ args+16(FP), R10
	MOVQ 0(R10), DI
	MOVQ 8(R10), SI
	MOVQ 16(R10), DX
	MOVQ 24(R10), CX
	MOVQ SP, R12
	MOVQ R11, SP
	CALL AX
	MOVQ R12, SP
	MOVQ AX, ret+24(FP)
	RET
