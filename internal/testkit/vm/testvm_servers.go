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

// makeServersDisk makes the root disk of a machine that has the servers too: the
// root with the servers laid over the first one, with the accounts of both. Where
// both have a file, their packages are the same. No server starts by itself: each
// costs a boot ten seconds.
func (vm *VM) makeServersDisk(t testing.TB) {
	t.Helper()
	over := vm.file("over")
	machine, servers := root.Dir(t), root.Servers(t)
	renumbered := mergeAccounts(t, machine, servers, filepath.Join(over, "etc"))
	// What makes it this machine, and no chroot.
	for _, name := range []string{"etc/fstab", "etc/machine-id", "etc/hostname", "etc/hosts"} {
		copyFile(t, filepath.Join(machine, name), filepath.Join(over, name))
	}
	vm.command(append([]string{"unshare", "-m", "--", "/bin/sh", "-eu", "-c", mergeScript, "servers",
		vm.dir, machine, servers, over}, renumbered...)...)
	os.RemoveAll(over)
}

// mergeScript lays one tree over another and makes a file system of it. After
// the directory for its work and the three trees it gets the accounts of the
// first tree that have other numbers now: user or group, the old one, the new one.
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

// mergeAccounts writes the account files of two trees into a directory: of the
// second all, of the first what the second has not, with a free number where the
// second uses its own. It returns "uid" or "gid", the number in the first tree and
// the new one, for each that is another.
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
	groups := map[string]string{} // number in the first tree to that of now
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
