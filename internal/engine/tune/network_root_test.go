package tune_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"fettle.dev/fettle/internal/testkit/root"
)

// ownNetwork runs the test again as a process with its own network namespace and returns false
// there. The namespace has two connected devices with values other than the defaults. Nothing
// outside changes.
func ownNetwork(t *testing.T) (outside bool) {
	t.Helper()
	const mark = "FETTLE_TEST_OWN_NETWORK"
	if os.Getenv(mark) == "" {
		root.Real(t, "changes a network of its own")
		if os.Geteuid() != 0 {
			root.Missing(t, "a network namespace needs root")
		}
		c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), mark+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
		out, err := c.CombinedOutput()
		t.Logf("%s", out)
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("in a network of its own: %v", err)
		}
		return true
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must(syscall.Mount("sysfs", "/sys", "sysfs", 0, ""))
	store := func(file, value string) { // not every kernel has every one
		if err := os.WriteFile("/proc/sys/net/"+file, []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"all", "default"} {
		store("ipv6/conf/"+d+"/accept_dad", "0") // an address is there at once
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "near"
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far"}))
	for _, d := range []string{"lo", "near", "far"} {
		link, err := netlink.LinkByName(d)
		must(err)
		must(netlink.LinkSetUp(link))
		if d != "near" {
			continue
		}
		for _, a := range []string{"192.0.2.1/24", "fd00:99::1/64"} {
			addr, err := netlink.ParseAddr(a)
			must(err)
			must(netlink.AddrAdd(link, addr))
		}
	}
	// The kernel gives each end its own address once it has seen the link come
	// up; with the other addr_gen_mode below it would do so at any later write.
	if !root.Eventually(time.Minute, func() bool {
		addresses, err := os.ReadFile("/proc/net/if_inet6")
		if errors.Is(err, fs.ErrNotExist) {
			return true // a kernel without IPv6
		}
		own := map[string]bool{}
		for line := range strings.Lines(string(addresses)) {
			if f := strings.Fields(line); strings.HasPrefix(f[0], "fe80") {
				own[f[len(f)-1]] = true
			}
		}
		return own["near"] && own["far"]
	}) {
		t.Fatal("the links have no addresses of their own")
	}
	for _, d := range []string{"lo", "near", "far"} {
		for _, family := range []string{"ipv4", "ipv6"} {
			store(family+"/neigh/"+d+"/base_reachable_time_ms", "30500")
			store(family+"/neigh/"+d+"/retrans_time_ms", "1504")
			store(family+"/neigh/"+d+"/unres_qlen_bytes", "212991")
		}
	}
	store("ipv6/route/gc_min_interval_ms", "504")
	store("ipv4/conf/far/forwarding", "1")
	for name, value := range map[string]string{"forwarding": "1", "force_forwarding": "1", "ignore_routes_with_linkdown": "1", "addr_gen_mode": "1", "mtu": "1300"} {
		store("ipv6/conf/far/"+name, value)
	}
	return false
}

// networkFiles returns the writable settings of the network: below /proc/sys and in the directories
// of the devices.
func networkFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	writable := func(p string) bool {
		fi, err := os.Stat(p)
		return err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o200 != 0
	}
	err := filepath.WalkDir("/proc/sys/net", func(p string, _ fs.DirEntry, err error) error {
		if err == nil && writable(p) {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	devices, err := filepath.Glob("/sys/class/net/*/*")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, slices.DeleteFunc(devices, func(p string) bool { return !writable(p) })...)
}

// network returns everything that an undo must restore, including addresses and routes.
func network(files []string) map[string]string {
	out := map[string]string{}
	for _, p := range slices.Concat(files, []string{"/proc/net/if_inet6", "/proc/net/fib_trie", "/proc/net/ipv6_route"}) {
		b, err := os.ReadFile(p)
		if err != nil {
			out[p] = err.Error()
			continue
		}
		text := string(b)
		if strings.HasPrefix(p, "/proc/net/") {
			lines := strings.Split(strings.TrimSpace(text), "\n")
			for i, l := range lines {
				if f := strings.Fields(l); len(f) == 10 { // ipv6_route: without the counts of users
					lines[i] = strings.Join(slices.Delete(f, 6, 8), " ")
				}
			}
			slices.Sort(lines)
			text = strings.Join(lines, "\n")
		}
		out[p] = text
	}
	return out
}

// others returns values to try instead of the given one.
func others(value string) []string {
	fields := strings.Fields(value)
	var out []string
	for _, change := range []func(int) int{
		func(n int) int { return n + 1 }, func(n int) int { return n - 1 }, func(n int) int { return 2 * n }, func(n int) int { return n / 2 },
		func(int) int { return 0 }, func(int) int { return 1 }, func(int) int { return 1400 },
	} {
		changed := make([]string, len(fields))
		for i, f := range fields {
			n, err := strconv.ParseInt(f, 0, 63)
			if err != nil {
				return []string{"reno", "fq", "1-2", "userspace", "7"}
			}
			changed[i] = strconv.Itoa(change(int(n)))
		}
		if v := strings.Join(changed, " "); v != strings.Join(fields, " ") {
			out = append(out, v)
		}
	}
	return append(out, "1")
}

// notToBeTakenBack are the network settings whose change must be refused, with the reasons.
var notToBeTakenBack = map[string]string{
	"net.ipv6.conf.all.disable_ipv6":  "drops addresses",
	"net.ipv6.conf.lo.disable_ipv6":   "drops addresses",
	"net.ipv6.conf.near.disable_ipv6": "drops addresses",
	"net.ipv6.conf.far.disable_ipv6":  "drops addresses",
	"net.netfilter.nf_hooks_lwtunnel": "stays on",
	"/sys/class/net/lo/flags":         "drops addresses",
	"/sys/class/net/near/flags":       "drops addresses",
	"/sys/class/net/far/flags":        "drops addresses",
}
