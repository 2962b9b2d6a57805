#include "textflag.h"

// program is what the starter's process runs, and nothing else: it is copied into an
// image of its own and never called here. It has no stack frame, no data and no address
// of its own. What it is called with is at SP: argc, the arguments, 0, the environment.
//
//	argv[1]    path of the work
//	argv[2:]   arguments of the work, its name first
//
// On descriptor 3 it says what became of the work: wait4(2)'s status in 8 bytes, and
// behind it the rusage of the work and of what that has waited for; before them the
// error of execve(2), in 8 bytes, where the kernel has not started it. With fewer
// arguments it ends at once.
TEXT ·program(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ	SP, BX
	MOVQ	0(BX), R12
	CMPQ	R12, $3
	JLT	nothing
	// Descriptor 3 is not for the work: fcntl(3, F_SETFD, FD_CLOEXEC).
	MOVL	$72, AX
	MOVL	$3, DI
	MOVL	$2, SI
	MOVL	$1, DX
	SYSCALL
	// A signal to the process group is for the work: whether that ends by it is its own
	// affair. rt_sigprocmask(SIG_BLOCK, all, before, 8).
	MOVQ	$-1, -64(BX)
	MOVL	$14, AX
	MOVL	$0, DI
	LEAQ	-64(BX), SI
	LEAQ	-56(BX), DX
	MOVL	$8, R10
	SYSCALL
	// fork()
	MOVL	$57, AX
	SYSCALL
	CMPQ	AX, $0
	JLT	failed
	JEQ	work
	MOVQ	AX, R13

wait:
	// wait4(R13, BX-256, 0, BX-248)
	MOVL	$61, AX
	MOVQ	R13, DI
	LEAQ	-256(BX), SI
	MOVL	$0, DX
	LEAQ	-248(BX), R10
	SYSCALL
	CMPQ	AX, $-4 // EINTR
	JEQ	wait
	CMPQ	AX, $0
	JLT	failed
	// write(3, BX-256, 152)
	MOVL	$1, AX
	MOVL	$3, DI
	LEAQ	-256(BX), SI
	MOVL	$152, DX
	SYSCALL

nothing:
	MOVL	$231, AX // exit_group(0)
	MOVL	$0, DI
	SYSCALL

work:
	// rt_sigprocmask(SIG_SETMASK, before, 0, 8)
	MOVL	$14, AX
	MOVL	$2, DI
	LEAQ	-56(BX), SI
	MOVL	$0, DX
	MOVL	$8, R10
	SYSCALL
	// It ends with the starter: prctl(PR_SET_PDEATHSIG, SIGKILL).
	MOVL	$157, AX
	MOVL	$1, DI
	MOVL	$9, SI
	SYSCALL
	// execve(argv[1], argv[2:], environment)
	MOVL	$59, AX
	MOVQ	16(BX), DI
	LEAQ	24(BX), SI
	LEAQ	16(BX)(R12*8), DX
	SYSCALL
	// write(3, its error, 8)
	MOVQ	AX, -64(BX)
	MOVL	$1, AX
	MOVL	$3, DI
	LEAQ	-64(BX), SI
	MOVL	$8, DX
	SYSCALL

failed:
	MOVL	$231, AX // exit_group(127)
	MOVL	$127, DI
	SYSCALL
	INT	$3

// programEnd is where program ends.
TEXT ·programEnd(SB), NOSPLIT|NOFRAME, $0-0
	RET

// func bounds() (begin, end *byte)
TEXT ·bounds(SB), NOSPLIT, $0-16
	LEAQ	·program(SB), AX
	MOVQ	AX, begin+0(FP)
	LEAQ	·programEnd(SB), AX
	MOVQ	AX, end+8(FP)
	RET
