package unit

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseCPUList parses the kernel's list format
// (Documentation/admin-guide/kernel-parameters.rst, "cpu lists"; bitmap_parselist in
// lib/bitmap-str.c): numbers and ranges, separated by commas, optionally with the used part of
// each group, "0-3,8,16-31:2/4". White space around the list and its elements is ignored. An
// empty list is the empty set, as in /sys/devices/system/cpu/isolated. "N" and "all" depend on
// the machine and are errors. Package profile parses TuneD's list syntax.
func ParseCPUList(s string) (CPUSet, error) {
	var set CPUSet
	if strings.TrimSpace(s) == "" {
		return set, nil
	}
	for _, elem := range strings.Split(s, ",") {
		if err := set.addRange(strings.TrimSpace(elem)); err != nil {
			return CPUSet{}, fmt.Errorf("CPU list %q: %w", strings.TrimSpace(s), err)
		}
	}
	return set, nil
}

// addRange adds one element: a, a-b, a-b:used/group.
func (s *CPUSet) addRange(elem string) error {
	span, part, grouped := strings.Cut(elem, ":")
	from, to, isRange := strings.Cut(span, "-")
	if strings.EqualFold(span, "all") {
		from, to, isRange = "0", "N", true
	}
	first, err := cpuNumber(from)
	if err != nil {
		return err
	}
	last := first
	if isRange {
		if last, err = cpuNumber(to); err != nil {
			return err
		}
	}
	if last < first {
		return fmt.Errorf("range %q: the last CPU is before the first", span)
	}
	used, group := MaxCPUs, MaxCPUs // one group
	if grouped {
		if !isRange {
			return fmt.Errorf("%q: only a range can have groups", elem)
		}
		usedText, groupText, ok := strings.Cut(part, "/")
		if !ok {
			return fmt.Errorf("%q: write groups as FIRST-LAST:USED/SIZE", elem)
		}
		if used, err = decimal(usedText); err != nil {
			return err
		}
		if group, err = decimal(groupText); err != nil {
			return err
		}
		if used < 1 || used > group {
			return fmt.Errorf("%q: a group of %d CPUs cannot use %d of them", elem, group, used)
		}
	}
	group = min(group, MaxCPUs) // no range is longer
	used = min(used, group)
	for c := first; c <= last; c += group {
		s.AddRange(c, min(c+used-1, last))
	}
	return nil
}

func cpuNumber(text string) (int, error) {
	if text == "N" || text == "n" {
		return 0, fmt.Errorf("%q depends on the machine's number of CPUs", "N")
	}
	n, err := decimal(text)
	if err == nil && n >= MaxCPUs {
		err = fmt.Errorf("CPU %d: no kernel has more than %d CPUs", n, MaxCPUs)
	}
	return n, err
}

// decimal parses an unsigned number. Unlike strconv and Python it accepts only digits, not
// signs, spaces and underscores.
func decimal(text string) (int, error) {
	if text == "" {
		return 0, fmt.Errorf("a CPU number is missing")
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not a number", text)
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", text)
	}
	return n, nil
}

// ParseCPUMask parses a hexadecimal mask like the kernel (bitmap_parse in lib/bitmap-str.c):
// groups of up to eight digits, separated by commas. Each group is for 32 CPUs, the last one
// for CPUs 0-31. One long run of digits is accepted too. A leading "0x" and surrounding white
// space are ignored.
func ParseCPUMask(s string) (CPUSet, error) {
	text := strings.TrimSpace(s)
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
	bad := func(format string, args ...any) (CPUSet, error) {
		return CPUSet{}, fmt.Errorf("CPU mask %q: %s", text, fmt.Sprintf(format, args...))
	}
	if len(digits) > 2*MaxCPUs {
		return bad("too long")
	}
	groups := strings.Split(digits, ",")
	for i, g := range groups {
		switch {
		case g == "":
			return bad("a group is empty")
		case len(g) > 8 && len(groups) > 1:
			return bad("group %q has more than 8 digits", g)
		case i > 0: // a short group also covers 32 CPUs
			groups[i] = strings.Repeat("0", 8-len(g)) + g
		}
	}
	digits = strings.Join(groups, "")
	var set CPUSet
	for i := range len(digits) {
		d := digits[len(digits)-1-i]
		v := strings.IndexByte("0123456789abcdef", d|0x20)
		if v < 0 {
			return bad("%q is not a hexadecimal digit", d)
		}
		for bit := range 4 {
			if v&(1<<bit) == 0 {
				continue
			}
			if c := 4*i + bit; c < MaxCPUs {
				set.AddRange(c, c)
			} else {
				return bad("CPU %d: no kernel has more than %d CPUs", c, MaxCPUs)
			}
		}
	}
	return set, nil
}
