package placement

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// Memory policies of set_mempolicy(2).
const (
	policyPreferred     = 1
	policyBind          = 2
	policyInterleave    = 3
	policyLocal         = 4
	policyPreferredMany = 5
	policyWeighted      = 6 // interleaved by weight; Linux 6.9
	flagBalancing       = 1 << 13
)

// Binding is where a command may run and allocate memory.
type Binding struct {
	// Policy is a policy of set_mempolicy(2) for Nodes; 0 leaves the policy as it is.
	Policy int
	Nodes  unit.CPUSet
	// CPUs are the CPUs that may run the command; empty leaves them as they are.
	CPUs unit.CPUSet
	// Balancing lets NUMA balancing move pages within Nodes.
	Balancing bool
	// Ignored lists the options that numactl ignores for a command, with a warning.
	Ignored []string
}

// numactlOptions are all options of numactl(8), 2.0.16 to 2.0.19: a long name may be shortened to
// any prefix that is unique among all of them. Those after cpubind do not apply to a command.
var numactlOptions = []option{
	{'a', "all", noArgument}, {'b', "balancing", noArgument}, {'l', "localalloc", noArgument},
	{'i', "interleave", needsArgument}, {'m', "membind", needsArgument}, {'N', "cpunodebind", needsArgument},
	{'C', "physcpubind", needsArgument}, {'p', "preferred", needsArgument}, {'P', "preferred-many", needsArgument},
	{'w', "weighted-interleave", needsArgument},
	{'c', "cpubind", needsArgument}, // old name of cpunodebind
	{'t', "strict", noArgument}, {'s', "show", noArgument}, {'H', "hardware", noArgument},
	{'S', "shm", needsArgument}, {'f', "file", needsArgument}, {'o', "offset", needsArgument},
	{'L', "length", needsArgument}, {'M', "shmmode", needsArgument}, {'I', "shmid", needsArgument},
	{'d', "dump", noArgument}, {'D', "dump-nodes", noArgument}, {'u', "huge", noArgument},
	{'T', "touch", noArgument}, {'V', "verify", noArgument},
}

// refusal returns why an option of numactl is not supported, or nil.
func (o given) refusal() error {
	at := slices.IndexFunc(numactlOptions, func(n option) bool { return n.short == o.short })
	switch name := "--" + numactlOptions[at].long; o.short {
	case 's':
		return errors.New(name + " is not supported; for the policy of a process: fettle numa show -p PID")
	case 'H':
		return errors.New(name + " is not supported; for the nodes: fettle numa show")
	case 'S', 'f', 'o', 'L', 'M', 'I', 'd', 'D', 'u', 'T', 'V':
		return errors.New(name + " is for shared memory or a file in tmpfs, not for a command; use numactl for them")
	}
	return nil
}

// ParseBinding reads the options of numactl and the command after them.
func ParseBinding(h *host.Host, args []string) (b Binding, command []string, err error) {
	found, command, err := getopt(args, numactlOptions, false)
	if err != nil {
		return b, nil, err
	}
	for _, o := range found {
		if err := o.refusal(); err != nil {
			return b, nil, err
		}
	}
	if len(command) == 0 {
		return b, nil, errors.New("no command given")
	}
	p, err := newNodeParser(h)
	if err != nil {
		return b, nil, err
	}
	policy := func(code int, nodes unit.CPUSet) error {
		if b.Policy != 0 {
			return errors.New("only one memory policy can be set: -i, -l, -m, -p, -w or --preferred-many")
		}
		b.Policy, b.Nodes = code, nodes
		return nil
	}
	for _, o := range found {
		if err := p.option(&b, o, policy); err != nil {
			return b, nil, err
		}
	}
	if b.Balancing && b.Policy != policyBind {
		b.Balancing = false // numactl ignores it as well
	}
	return b, command, nil
}

// option applies one option.
func (p *nodeParser) option(b *Binding, o given, policy func(int, unit.CPUSet) error) error {
	codes := map[byte]int{'i': policyInterleave, 'm': policyBind, 'p': policyPreferred, 'P': policyPreferredMany, 'w': policyWeighted}
	switch o.short {
	case 'a':
		p.nodes.allowed, p.cpus.allowed = p.nodes.all, p.cpus.all
	case 'b':
		b.Balancing = true
	case 'l':
		return policy(policyLocal, unit.CPUSet{})
	case 't':
		b.Ignored = []string{"--strict"}
	case 'i', 'm', 'p', 'P', 'w':
		nodes, err := p.nodes.parse(o.argument)
		if err != nil {
			return err
		}
		if o.short == 'p' && nodes.Len() != 1 {
			return fmt.Errorf("--preferred %s: want one node", o.argument)
		}
		return policy(codes[o.short], nodes)
	case 'N', 'c':
		nodes, err := p.nodes.parse(o.argument)
		if err != nil {
			return err
		}
		return b.runOn(p.cpusOf(nodes), "nodes "+nodes.String()+" have no CPUs")
	case 'C':
		cpus, err := p.cpus.parse(o.argument)
		if err != nil {
			return err
		}
		return b.runOn(cpus, "no CPU is left")
	}
	return nil
}

func (b *Binding) runOn(cpus unit.CPUSet, none string) error {
	if cpus.IsEmpty() {
		return errors.New(none)
	}
	b.CPUs = cpus // the last option counts, as with numactl
	return nil
}

// Exec replaces this process by a command with the binding. It returns only an error.
func (b Binding) Exec(h *host.Host, path string, argv, env []string) error {
	runtime.LockOSThread() // a policy is that of a thread, and the thread that calls exec keeps its own
	if !b.CPUs.IsEmpty() {
		var set unix.CPUSet
		for _, c := range b.CPUs.Numbers() {
			set.Set(c)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("cannot run on CPUs %s: %w%s", b.CPUs, err, confined(h, "cpuset.cpus"))
		}
	}
	if b.Policy != 0 {
		if err := b.setPolicy(); b.Policy == policyWeighted && errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("cannot interleave by weight over nodes %s: %w; --weighted-interleave needs Linux 6.9", b.Nodes, err)
		} else if err != nil {
			return fmt.Errorf("cannot use the memory of nodes %s: %w%s", b.Nodes, err, confined(h, "cpuset.mems"))
		}
	}
	if err := unix.Exec(path, argv, env); err != nil {
		return &os.PathError{Op: "exec", Path: path, Err: err}
	}
	return nil
}

func (b Binding) setPolicy() error {
	mode := b.Policy
	if b.Balancing {
		mode |= flagBalancing
	}
	var mask []uint64
	for _, n := range b.Nodes.Numbers() {
		for len(mask) <= n/64 {
			mask = append(mask, 0)
		}
		mask[n/64] |= 1 << (n % 64)
	}
	var at, bits uintptr
	if len(mask) > 0 {
		at, bits = uintptr(unsafe.Pointer(&mask[0])), uintptr(64*len(mask)+1)
	}
	_, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), at, bits)
	runtime.KeepAlive(mask)
	if errno != 0 {
		return errno
	}
	return nil
}

// confined names the control group that limits this process, for errors.
func confined(h *host.Host, what string) string {
	text, err := h.Files.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		if controllers == "" || strings.Contains(controllers, "cpuset") {
			return fmt.Sprintf(" (the control group %s limits it: see its %s)", path, what)
		}
	}
	return ""
}
