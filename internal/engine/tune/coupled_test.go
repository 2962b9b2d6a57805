package tune_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// coupledKernel is a machine whose sysctls change each other as in the kernel.
type coupledKernel struct {
	host.Files
	all, standard, redirects int    // net/ipv4/devinet.c
	devices                  [2]int // forwarding of d0 and d1
	watchdog, soft, nmi      int    // what was asked for: kernel/watchdog.c
	hasNMI                   bool
	bytes, ratio             int // mm/page-writeback.c
}

func (k *coupledKernel) values() map[string]string {
	on := func(v int) int { return min(v*k.watchdog, 1) }
	soft, nmi := on(k.soft), 0
	if k.hasNMI {
		nmi = on(k.nmi)
	}
	m := map[string]int{
		"net.ipv4.ip_forward": k.all, "net.ipv4.conf.all.forwarding": k.all, "net.ipv4.conf.default.forwarding": k.standard,
		"net.ipv4.conf.all.accept_redirects": k.redirects, "net.ipv4.conf.d0.forwarding": k.devices[0], "net.ipv4.conf.d1.forwarding": k.devices[1],
		"kernel.watchdog": max(soft, nmi), "kernel.soft_watchdog": soft, "kernel.nmi_watchdog": nmi,
		"vm.dirty_bytes": k.bytes, "vm.dirty_ratio": k.ratio,
	}
	out := map[string]string{}
	for name, v := range m {
		out[name] = strconv.Itoa(v)
	}
	return out
}

func (k *coupledKernel) ReadFile(p string) ([]byte, error) {
	if v, ok := k.values()[strings.ReplaceAll(strings.TrimPrefix(p, "/proc/sys/"), "/", ".")]; ok {
		return []byte(v + "\n"), nil
	}
	return k.Files.ReadFile(p)
}

func (k *coupledKernel) Store(p string, data []byte) error {
	v, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return &os.PathError{Op: "write", Path: p, Err: syscall.EINVAL}
	}
	switch name := strings.ReplaceAll(strings.TrimPrefix(p, "/proc/sys/"), "/", "."); name {
	case "net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding":
		if k.all != v {
			k.all, k.standard, k.redirects, k.devices = v, v, 1-v, [2]int{v, v}
		}
	case "net.ipv4.conf.default.forwarding":
		k.standard = v
	case "net.ipv4.conf.all.accept_redirects":
		k.redirects = v
	case "net.ipv4.conf.d0.forwarding":
		k.devices[0] = v
	case "net.ipv4.conf.d1.forwarding":
		k.devices[1] = v
	case "kernel.watchdog":
		k.watchdog = v
	case "kernel.soft_watchdog":
		k.soft = v
	case "kernel.nmi_watchdog":
		if !k.hasNMI {
			return &os.PathError{Op: "write", Path: p, Err: syscall.EOPNOTSUPP}
		}
		k.nmi = v
	case "vm.dirty_bytes":
		if v < 8192 {
			return &os.PathError{Op: "write", Path: p, Err: syscall.EINVAL}
		}
		if k.bytes != v {
			k.bytes, k.ratio = v, 0
		}
	case "vm.dirty_ratio":
		if k.ratio != v {
			k.ratio, k.bytes = v, 0
		}
	default:
		return fmt.Errorf("no such variable: %s", name)
	}
	return nil
}

// coupledTree has the names of its variables; the values come from the kernel.
func coupledTree(t *testing.T) string {
	t.Helper()
	var files []string
	for name := range (&coupledKernel{}).values() {
		files = append(files, name, "")
	}
	_, dir := fakeMachine(t, sysctls(files...))
	return dir
}

// coupledCase is four transactions on such a machine and the order of their undos, all from one
// seed.
type coupledCase struct {
	t        *testing.T
	kernel   *coupledKernel
	engine   *tune.Engine
	original map[string]string
	txs      []map[string]string
	kinds    []journal.TxKind
	order    []int
	left     []map[string]string // what each transaction left, once it was done
	standing []int
}

func newCoupledCase(t *testing.T, tree string, seed uint64, kinds ...journal.TxKind) *coupledCase {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 4))
	k := &coupledKernel{
		all: r.IntN(2), standard: r.IntN(2), redirects: r.IntN(2), devices: [2]int{r.IntN(2), r.IntN(2)},
		watchdog: r.IntN(2), soft: r.IntN(2), nmi: r.IntN(2), hasNMI: r.IntN(2) == 0,
	}
	if k.ratio = 20; r.IntN(3) == 0 {
		k.ratio, k.bytes = 0, 50_000_000
	}
	c := &coupledCase{t: t, kernel: k, original: k.values(), order: r.Perm(4)}
	h := host.Mounted(tree)
	k.Files = h.Files
	h.Files = k
	c.engine = newEngine(t, h)
	names := slices.Sorted(maps.Keys(c.original))
	for i := range 4 {
		tx := map[string]string{}
		for range 1 + r.IntN(3) {
			name := names[r.IntN(len(names))]
			v := strconv.Itoa(r.IntN(2))
			switch name {
			case "vm.dirty_bytes":
				v = []string{"0", "100000000", "200000000"}[r.IntN(3)]
			case "vm.dirty_ratio":
				v = []string{"0", "10", "30"}[r.IntN(3)]
			}
			tx[name] = v
		}
		c.txs = append(c.txs, tx)
		c.kinds = append(c.kinds, kinds[r.IntN(len(kinds))])
		c.standing = append(c.standing, i)
	}
	return c
}

// tuneAll returns false if the kernel accepted a value without showing it: soft_watchdog is not
// visible while watchdog is off, so it could not be restored.
func (c *coupledCase) tuneAll() bool {
	c.t.Helper()
	for i, tx := range c.txs {
		a := apply(c.t, c.engine, c.kinds[i], c.changes(tx)...)
		if a.Tx == 0 {
			return false // a limit asked to be 0 by itself, which the plan rejects
		}
		if a.Tx != i+1 {
			c.t.Fatalf("transaction %d of %v is number %d", i+1, c.txs, a.Tx)
		}
		for _, st := range a.Plan.Steps {
			if st.Verdict == plugin.Rejected && strings.HasSuffix(st.Setting.Name, "watchdog") {
				return false
			}
		}
		c.left = append(c.left, c.kernel.values())
	}
	return true
}

func (c *coupledCase) changes(tx map[string]string) []setting.Change {
	var out []setting.Change
	for _, name := range slices.Sorted(maps.Keys(tx)) {
		out = append(out, set(name, tx[name]))
	}
	return out
}

// undo undoes one transaction and checks the values: a value that a transaction has set, and that
// no later one has changed, is as that transaction left it.
func (c *coupledCase) undo(i int) {
	c.t.Helper()
	u, err := c.engine.Undo(context.Background(), i+1)
	if err != nil {
		c.t.Fatalf("%s: undo %d: %v", c, i+1, err)
	}
	c.undone(i, u)
}

func (c *coupledCase) undone(i int, u *tune.Undone) {
	c.t.Helper()
	if u != nil {
		for _, v := range u.Values {
			if v.State == journal.KeptNow || v.State == journal.Failed {
				c.t.Errorf("%s: undo %d: %s %s: %s", c, i+1, v.Setting, v.State, v.Why)
			}
		}
	}
	c.standing = slices.DeleteFunc(c.standing, func(k int) bool { return k == i })
	s, err := c.engine.State()
	if err != nil {
		c.t.Fatal(err)
	}
	now := c.kernel.values()
	for place, chain := range s.Chains() {
		top := chain[len(chain)-1]
		want := c.left[top.Tx.ID-1][place.Name]
		if top.CoupledTo == 0 && top.Want.Text == want && now[place.Name] != want {
			c.t.Errorf("%s: after undo %d %s is %s, and transaction %d had left %s", c, i+1, place, now[place.Name], top.Tx.ID, want)
		}
	}
	if len(c.standing) == 0 && !maps.Equal(now, c.original) {
		c.t.Errorf("%s: at the end %v, want %v", c, now, c.original)
	}
}

func (c *coupledCase) String() string {
	return fmt.Sprintf("%v %v undone in order %v; first %v, now %v", c.kinds, c.txs, c.order, c.original, c.kernel.values())
}

// TestCoupledTransactionsInAnyOrder tests four transactions whose writes change each other's
// settings, as coupled kernel settings do, undone one by one in any order. Values of later
// transactions stay, no program is blamed without reason, and the original state is restored at the
// end.
func TestCoupledTransactionsInAnyOrder(t *testing.T) {
	tree, tried := coupledTree(t), 0
	for _, kinds := range [][]journal.TxKind{{journal.Apply}, {journal.Apply, journal.Tune}} {
		for seed := range uint64(root.Sample(150)) {
			c := newCoupledCase(t, tree, seed, kinds...)
			if !c.tuneAll() {
				continue
			}
			tried++
			for _, i := range c.order {
				c.undo(i)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	if want := root.Sample(150); tried < want {
		t.Errorf("tried %d sets of transactions, want %d at least", tried, want)
	}
}

var errCut = errors.New("cut off")

// cutOff returns true if errCut has ended the call.
func cutOff(do func()) (cut bool) {
	defer func() {
		if p := recover(); p != nil {
			if p != error(errCut) {
				panic(p)
			}
			cut = true
		}
	}()
	do()
	return false
}

// TestCoupledUndoCutOff does the same with an undo that is interrupted at any point: the next undo,
// or the recovery before it, knows the settings that may have changed.
func TestCoupledUndoCutOff(t *testing.T) {
	tree, tried := coupledTree(t), 0
	for seed := range uint64(root.Sample(8)) {
		for which := range 4 {
			for point := 0; ; point++ {
				c := newCoupledCase(t, tree, seed, journal.Apply)
				if !c.tuneAll() {
					break
				}
				for _, i := range c.order[:which] {
					c.undo(i)
				}
				n := 0
				c.engine.At = func(string) {
					if n++; n > point {
						panic(errCut)
					}
				}
				cut := cutOff(func() { c.undo(c.order[which]) })
				c.engine.At = nil
				if !cut {
					break
				}
				tried++
				if done, err := c.engine.Recover(context.Background()); err != nil {
					t.Fatalf("%s: recover: %v", c, err)
				} else if len(done) > 0 {
					c.undone(c.order[which], nil)
				} else if s, err := c.engine.State(); err != nil || s.Tx(c.order[which]+1).IsLive() {
					c.undo(c.order[which])
				} else {
					c.undone(c.order[which], nil)
				}
				for _, i := range c.order[which+1:] {
					c.undo(i)
				}
				if t.Failed() {
					t.Fatalf("seed %d, cut at point %d of undo %d", seed, point, c.order[which]+1)
				}
			}
		}
	}
	if want := root.Sample(100); tried < want {
		t.Errorf("cut off at %d points, want %d at least", tried, want)
	}
}
