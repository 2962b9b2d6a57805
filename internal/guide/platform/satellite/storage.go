package satellite

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
)

// storageSet is the set of directories that need a fast disk.
const storageSet = "satellite.storage"

var storageDirs = []string{"/var/lib/pulp", "/var/lib/pgsql", "/var/lib/qpidd", "/var/lib/candlepin", "/"}

func (s *satellite) directories() (names []string, unknown string) {
	for _, d := range storageDirs {
		_, err := s.host.Files.Stat(d)
		if d == "/" || err == nil {
			names = append(names, d)
		}
	}
	return names, ""
}

// mounted returns the mount point of a directory.
func (s *satellite) mounted(dir string) (point, unknown string) {
	points, ok := s.subject.Facts().Members("mount")
	if !ok || len(points) == 0 {
		it, _ := s.subject.Facts().Lookup("mount")
		return "", cmp.Or(it.Unknown, "the mounts are unknown")
	}
	if at, err := s.host.Files.Resolve(dir); err == nil {
		dir = at
	}
	for d := path.Clean(dir); ; d = path.Dir(d) {
		if slices.Contains(points, d) {
			return d, ""
		}
		if d == "/" {
			return "", "nothing is mounted on /"
		}
	}
}

func (s *satellite) mount(dir string) fact.Answer {
	point, unknown := s.mounted(dir)
	if unknown != "" {
		return fact.Answer{Unknown: unknown}
	}
	return fact.Answer{Value: point, At: s.subject.Answer("mount." + point + ".type").At}
}

// mountOf answers with the mount point of an existing directory.
func mountOf(dir string) func(*satellite) fact.Answer {
	return func(s *satellite) fact.Answer {
		if _, err := s.host.Files.Stat(dir); err != nil {
			return fact.Answer{Unknown: s.why(dir, err)}
		}
		return s.mount(dir)
	}
}

// qpiddSize answers with the size of qpidd's file system, if qpidd runs.
func (s *satellite) qpiddSize() fact.Answer {
	const dir = "/var/lib/qpidd"
	if s.withoutQpidd() {
		return fact.Answer{}
	}
	if _, err := s.host.Files.Stat(dir); err != nil {
		return fact.Answer{Unknown: s.why(dir, err)}
	}
	return s.spaceSize(dir)
}

// ofMount answers with a fact of a directory's mount.
func (s *satellite) ofMount(dir, name string) fact.Answer {
	point, unknown := s.mounted(dir)
	if unknown != "" {
		return fact.Answer{Unknown: unknown}
	}
	return s.subject.Answer("mount." + point + "." + name)
}

func (s *satellite) mountType(dir string) fact.Answer { return s.ofMount(dir, "type") }

// rotational answers whether a disk below a mount rotates.
func (s *satellite) rotational(dir string) fact.Answer {
	a := s.ofMount(dir, "device")
	name, ok := a.Value.(string)
	if !ok {
		return a
	}
	disks, _ := s.subject.Facts().Members("disk")
	seen := map[string]bool{}
	var turning, known bool
	var walk func(name string)
	walk = func(name string) {
		if seen[name] || len(seen) > 64 {
			return
		}
		seen[name] = true
		if !slices.Contains(disks, name) { // a partition of an unknown disk
			for _, d := range disks {
				parts, _ := s.subject.Facts().Members("disk." + d + ".partition")
				if slices.Contains(parts, name) {
					walk(d)
				}
			}
			return
		}
		if lower, _ := s.subject.Answer("disk." + name + ".lower_devices").Value.([]string); len(lower) > 0 {
			for _, l := range lower {
				walk(l)
			}
			return
		}
		if r, ok := s.subject.Answer("disk." + name + ".rotational").Value.(bool); ok {
			known, turning = true, turning || r
		}
	}
	walk(name)
	if !known {
		return fact.Answer{Unknown: "unknown whether the disk below " + name + " rotates: not in /sys/block", At: a.At}
	}
	return fact.Answer{Value: turning, At: "/sys/block"}
}

func (s *satellite) spaceSize(dir string) fact.Answer { size, _ := s.space(dir); return size }
func (s *satellite) spaceFree(dir string) fact.Answer { _, free := s.space(dir); return free }

// space answers with size and free space, from the file system or from a sosreport's df output.
func (s *satellite) space(dir string) (size, free fact.Answer) {
	total, left, err := s.host.Space(dir)
	if err == nil {
		return fact.Answer{Value: float64(total), At: dir}, fact.Answer{Value: float64(left), At: dir}
	}
	unknown := fact.Answer{Unknown: s.why(dir, err)}
	if unknown.Unknown == "" {
		return fact.Answer{}, fact.Answer{}
	}
	point, why := s.mounted(dir)
	if why != "" {
		return unknown, unknown
	}
	for _, p := range []string{"/df", "/sos_commands/filesys/df_-al_-x_autofs"} {
		f := s.read(p)
		if total, left, line, ok := df(f.text, point); ok {
			return fact.Answer{Value: total, At: f.at(line)}, fact.Answer{Value: left, At: f.at(line)}
		}
	}
	unknown.Unknown = "the space of " + dir + " is not in this copy"
	return unknown, unknown
}

// df finds a mount point in df's output, in blocks of 1024 bytes. Its last line counts, because a
// later mount covers an earlier one.
func df(text, point string) (size, free float64, line int, ok bool) {
	n := 0
	for row := range strings.Lines(text) {
		n++
		w := strings.Fields(row)
		if len(w) < 6 || strings.Join(w[5:], " ") != point {
			continue
		}
		total, err1 := strconv.ParseUint(w[1], 10, 53)
		left, err2 := strconv.ParseUint(w[3], 10, 53)
		if err1 == nil && err2 == nil && total > 0 {
			size, free, line, ok = float64(total)*1024, float64(left)*1024, n, true
		}
	}
	return size, free, line, ok
}
