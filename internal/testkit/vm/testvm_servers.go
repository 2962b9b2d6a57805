package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// makeServersDisk creates the root disk of a machine with the servers: the root with the
// servers laid over the first one, with the accounts of both. Files that both contain come from
// the same packages. No server starts by itself, because each one adds ten seconds to a boot.
func (vm *VM) makeServersDisk(t testing.TB) {
	t.Helper()
	over := vm.file("over")
	machine, servers := root.Dir(t), root.Servers(t)
	renumbered := mergeAccounts(t, machine, servers, filepath.Join(over, "etc"))
	// Files that make it this machine, and not a chroot.
	for _, name := range []string{"etc/fstab", "etc/machine-id", "etc/hostname", "etc/hosts"} {
		copyFile(t, filepath.Join(machine, name), filepath.Join(over, name))
	}
	vm.command(append([]string{"unshare", "-m", "--", "/bin/sh", "-eu", "-c", mergeScript, "servers",
		vm.dir, machine, servers, over}, renumbered...)...)
	os.RemoveAll(over)
}

// mergeScript lays one tree over another and creates a file system from the result. Its
// arguments are a work directory, the three trees, and the renumbered accounts of the first
// tree: user or group, old number, new number.
const mergeScript = `
work=$1 machine=$2 servers=$3 over=$4
shift 4
mount --make-rprivate /
mkdir "$work/merge"
mount -t tmpfs tmpfs "$work/merge"
cd "$work/merge"
mkdir upper work root
mount -t overlay -o "lowerdir=$over:$servers:$machine,upperdir=upper,workdir=work" overlay root
while [ $# -gt 0 ]; do
	(cd "$machine" && find . -xdev "-$1" "$2" -printf '%p %m\n') | while read -r name mode; do
		if [ "$1" = uid ]; then chown -h "$3" "root/$name"; else chgrp -h "$3" "root/$name"; fi
		[ -L "root/$name" ] || chmod "$mode" "root/$name"
	done
	shift 3
done
for link in "$servers"/etc/systemd/system/multi-user.target.wants/*; do
	[ -L "$machine/etc/systemd/system/multi-user.target.wants/${link##*/}" ] || rm -f "root/etc/systemd/system/multi-user.target.wants/${link##*/}"
done
truncate -s 4G "$work/servers.ext4"
mkfs.ext4 -q -F -L fettle-test -E lazy_itable_init=1,lazy_journal_init=1 -d root "$work/servers.ext4"
`

// mergeAccounts writes the merged account files of two trees to a directory: all accounts of
// the second, and those that only the first has, with a free number if the second uses theirs.
// For each renumbered account it returns "uid" or "gid", the number in the first tree, and the
// new one.
func mergeAccounts(t testing.TB, first, second, dir string) (renumbered []string) {
	t.Helper()
	read := func(tree, name string) [][]string {
		b, err := os.ReadFile(filepath.Join(tree, "etc", name))
		if err != nil {
			t.Fatal(err)
		}
		var out [][]string
		for line := range strings.Lines(string(b)) {
			out = append(out, strings.Split(strings.TrimSuffix(line, "\n"), ":"))
		}
		return out
	}
	named := func(all [][]string, name string) []string {
		if i := slices.IndexFunc(all, func(f []string) bool { return f[0] == name }); i >= 0 {
			return all[i]
		}
		return nil
	}
	groups := map[string]string{} // number in the first tree to new number
	for _, name := range []string{"group", "passwd", "gshadow", "shadow"} {
		have, add := read(second, name), read(first, name)
		if len(have) == 0 || len(add) == 0 {
			t.Fatalf("no accounts in /etc/%s", name)
		}
		numbered := name == "group" || name == "passwd"
		for _, f := range add {
			now := named(have, f[0])
			if now == nil {
				now = slices.Clone(f)
				if numbered {
					for n := 200; slices.ContainsFunc(have, func(g []string) bool { return g[2] == now[2] }); n++ {
						now[2] = strconv.Itoa(n)
					}
				}
				if name == "passwd" {
					now[3] = groups[f[3]]
				}
				have = append(have, now)
			}
			if numbered && now[2] != f[2] {
				renumbered = append(renumbered, map[string]string{"group": "gid", "passwd": "uid"}[name], f[2], now[2])
			}
			if name == "group" {
				groups[f[2]] = now[2]
			}
		}
		var text strings.Builder
		for _, f := range have {
			fmt.Fprintln(&text, strings.Join(f, ":"))
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, "shadow") {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()), mode); err != nil {
			t.Fatal(err)
		}
	}
	return renumbered
}
