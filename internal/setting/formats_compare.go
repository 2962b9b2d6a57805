package setting

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/unit"
)

func comparison(same bool) Comparison {
	if same {
		return Same
	}
	return Different
}

// compareNumbers compares numbers as proc_dointvec and its variants parse them, in base 0: a
// leading 0 means octal. Fewer numbers than the file has only set the first ones
// (kernel.printk = 3).
func compareNumbers(c comparisonInput) Comparison {
	want, read := strings.Fields(c.want), strings.Fields(c.read)
	if len(want) == 0 || len(want) > len(read) {
		return Different
	}
	for i := range want {
		a, okA := number(want[i])
		b, okB := number(read[i])
		if want[i] != read[i] && (!okA || !okB || a != b) {
			return Different
		}
	}
	return Same
}

// compareDecimal compares numbers if it is unknown whether a leading 0 means octal in the file.
func compareDecimal(c comparisonInput) Comparison {
	same := compareNumbers(c)
	if octal(c.want) {
		plain := comparisonInput{c.host, c.file, decimal(c.want), c.read}
		if compareNumbers(plain) != same {
			return Unclear
		}
	}
	return same
}

func octal(s string) bool {
	s = strings.TrimLeft(strings.TrimSpace(s), "-+")
	return len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9'
}

func decimal(s string) string {
	s = strings.TrimSpace(s)
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	return sign + cmp.Or(strings.TrimLeft(s, "0"), "0")
}

func areNumbers(read string) bool {
	fields := strings.Fields(read)
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(w string) bool { _, ok := number(w); return !ok })
}

// compareRanges compares sets of numbers written as "a,b-c" in any order.
func compareRanges(c comparisonInput) Comparison {
	want, ok := ranges(c.want)
	if !ok {
		return Unclear // "all", "0-31:2/4": syntax of bitmap_parselist only
	}
	read, ok := ranges(c.read)
	if !ok {
		return Unclear
	}
	return comparison(slices.Equal(want, read))
}

// compareCPUList compares CPU lists as parsed by lib/bitmap-str.c bitmap_parselist. "N" is the
// last possible CPU, "all" means 0-N, and 0-7:2/4 the first two of every four.
func compareCPUList(c comparisonInput) Comparison {
	list := strings.Join(strings.FieldsFunc(c.want, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), ",")
	if len(list) >= 3 && strings.Contains(strings.ToLower(list), "all") {
		parts := strings.Split(list, ",")
		for i, p := range parts {
			if len(p) >= 3 && strings.EqualFold(p[:3], "all") {
				parts[i] = "0-N" + p[3:]
			}
		}
		list = strings.Join(parts, ",")
	}
	if strings.Contains(list, "N") {
		b, err := c.host.Files.ReadFile("/sys/devices/system/cpu/possible")
		possible, errList := unit.ParseCPUList(string(b))
		if err != nil || errList != nil || possible.IsEmpty() {
			return Unclear
		}
		numbers := possible.Numbers()
		list = strings.ReplaceAll(list, "N", strconv.Itoa(numbers[len(numbers)-1]))
	}
	want, err := unit.ParseCPUList(list)
	read, errRead := unit.ParseCPUList(c.read)
	if err != nil || errRead != nil {
		return Different // the kernel rejects such a list
	}
	return comparison(want.Equal(read))
}

// compareSMT compares values of the SMT control: on, off, forceoff, or a number of threads per
// core. The number 1 means off, and the maximum on.
func compareSMT(c comparisonInput) Comparison {
	want, read := strings.TrimSpace(c.want), strings.TrimSpace(c.read)
	n, isNumber := number(want)
	switch {
	case isNumber && n == 1:
		return comparison(read == "off" || read == "1")
	case isNumber && read == "on":
		return Unclear // may or may not be all threads of a core
	}
	return comparison(want == read)
}

// ranges returns the ranges of a list in ascending order, with adjacent ranges merged. It
// returns false if the list is invalid.
func ranges(list string) ([][2]int64, bool) {
	var out [][2]int64
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }) {
		first, last, isRange := strings.Cut(part, "-")
		a, okA := number(first)
		b, okB := a, okA
		if isRange {
			b, okB = number(last)
		}
		if !okA || !okB || a < 0 || b < a {
			return nil, false
		}
		out = append(out, [2]int64{a, b})
	}
	slices.SortFunc(out, func(x, y [2]int64) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) })
	merged := out[:0]
	for _, r := range out {
		if n := len(merged); n > 0 && r[0] <= merged[n-1][1]+1 {
			merged[n-1][1] = max(merged[n-1][1], r[1])
			continue
		}
		merged = append(merged, r)
	}
	return merged, true
}

// printedMask reports whether a text can only be a bitmap: it has
// comma-separated groups of eight digits.
func printedMask(read string) bool { return strings.Contains(read, ",") && isMask(read) }

func isMask(read string) bool { _, ok := mask(strings.TrimSpace(read)); return ok }

// compareMask compares hexadecimal bitmaps. The kernel accepts groups of 32
// bits without leading zeros.
func compareMask(c comparisonInput) Comparison {
	groups := func(s string) (string, bool) {
		var b strings.Builder
		for _, g := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
			if len(g) > 8 || strings.Trim(g, "0123456789abcdef") != "" {
				return "", false
			}
			b.WriteString(strings.Repeat("0", 8-len(g)) + g)
		}
		return strings.TrimLeft(b.String(), "0"), b.Len() > 0
	}
	want, ok := groups(c.want)
	read, okRead := groups(c.read)
	return comparison(ok && okRead && want == read)
}

// truth parses a boolean like lib/kstrtox.c kstrtobool: the first letter decides, for "on" and
// "off" the second.
func truth(s string) (on, ok bool) {
	if s == "" {
		return false, false
	}
	switch s[0] {
	case 'y', 'Y', 't', 'T', '1':
		return true, true
	case 'n', 'N', 'f', 'F', '0':
		return false, true
	case 'o', 'O':
		if len(s) > 1 && (s[1] == 'n' || s[1] == 'N') {
			return true, true
		}
		if len(s) > 1 && (s[1] == 'f' || s[1] == 'F') {
			return false, true
		}
	}
	return false, false
}

func isTruthWord(read string) bool {
	switch strings.TrimSpace(read) {
	case "Y", "N", "true", "false":
		return true
	}
	return false
}

func isBit(read string) bool { s := strings.TrimSpace(read); return s == "0" || s == "1" }

func compareBool(c comparisonInput) Comparison {
	want, ok := truth(c.want)
	read, okRead := truth(c.read)
	if !ok || !okRead {
		return Unclear // a word of this file only, such as auto
	}
	return comparison(want == read)
}

// compareParameter compares a module parameter. Booleans read Y or N, numbers have base 0,
// arrays are separated by commas. Other parameters have formats of their own.
func compareParameter(c comparisonInput) Comparison {
	want, read := strings.Split(strings.TrimSpace(c.want), ","), strings.Split(strings.TrimSpace(c.read), ",")
	if len(want) != len(read) {
		return Unclear
	}
	worst := Same
	for i := range want {
		one := comparisonInput{c.host, c.file, want[i], read[i]}
		like := Unclear
		_, isNumber := number(want[i])
		switch {
		case want[i] == read[i]:
			like = Same
		case isTruthWord(read[i]):
			like = compareBool(one)
		case areNumbers(read[i]) && isNumber:
			like = compareNumbers(one)
		}
		if like == Different || like == Unclear && worst == Same {
			worst = like
		}
	}
	return worst
}

// compareLRUGen compares values of the multi-generational LRU switch: y, n, or a mask of three
// bits. The file shows only the bits that the machine supports.
func compareLRUGen(c comparisonInput) Comparison {
	read, ok := number(strings.TrimSpace(c.read))
	if !ok {
		return Unclear
	}
	want, all := int64(7), false
	switch text := strings.TrimSpace(c.want); {
	case text == "":
		return Different
	case text[0] == 'n' || text[0] == 'N':
		want = 0
	case text[0] == 'y' || text[0] == 'Y':
		all = true
	default:
		if want, ok = number(text); !ok || want < 0 {
			return Different
		}
		want &= 7
	}
	switch {
	case want == read:
		return Same
	case (all || want&^read != 0) && read&1 == want&1 && read&^want == 0:
		return Unclear // this machine may lack other features
	}
	return Different
}

// compareFeature compares a list of switches that are written one at a time as
// NAME or NO_NAME.
func compareFeature(c comparisonInput) Comparison { return compareSwitch(c, "NO_") }

// compareTraceOption compares a list of trace options, written one at a time as NAME or noNAME.
func compareTraceOption(c comparisonInput) Comparison { return compareSwitch(c, "no") }

func compareSwitch(c comparisonInput, no string) Comparison {
	want, read := strings.Fields(c.want), strings.Fields(c.read)
	for _, w := range want {
		if slices.Contains(read, w) {
			continue
		}
		if slices.Contains(read, opposite(w, no)) || len(want) > 1 {
			return Different
		}
		return Unclear // this kernel lacks the switch, or spells it differently
	}
	return comparison(len(want) == 1 || len(want) == len(read))
}

func opposite(word, no string) string {
	if on, ok := strings.CutPrefix(word, no); ok {
		return on
	}
	return no + word
}

// compareSigned compares "+name -name" with the list of names that the file reads.
func compareSigned(c comparisonInput) Comparison {
	read := strings.Fields(c.read)
	signed := false
	for _, w := range strings.Fields(c.want) {
		name, has := strings.CutPrefix(w, "+")
		without, minus := strings.CutPrefix(w, "-")
		if signed = signed || has || minus; !has && !minus {
			continue
		}
		if has && !slices.Contains(read, name) || minus && slices.Contains(read, without) {
			return Different
		}
	}
	if signed {
		return Same
	}
	return compareSet(c)
}

func compareSet(c comparisonInput) Comparison {
	words := func(s string) []string { f := strings.Fields(s); slices.Sort(f); return slices.Compact(f) }
	return comparison(slices.Equal(words(c.want), words(c.read)))
}

// compareWord compares a word or number. An alias "written=read" is another spelling that the
// kernel accepts.
func compareWord(aliases ...string) func(comparisonInput) Comparison {
	return func(c comparisonInput) Comparison {
		want, read := strings.TrimSpace(c.want), strings.TrimSpace(c.read)
		return comparison(slices.Contains(aliases, want+"="+read) || compareText(c) == Same || areNumbers(read) && compareNumbers(c) == Same)
	}
}

// compareText compares a text that the kernel stores unchanged.
func compareText(c comparisonInput) Comparison {
	return comparison(slices.Equal(strings.Fields(c.want), strings.Fields(c.read)))
}

// compareHexGroups compares hexadecimal keys such as those of TCP Fast Open.
func compareHexGroups(c comparisonInput) Comparison {
	split := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == '-' || r == ',' || r == ' ' || r == '\n' })
	}
	want, read := split(c.want), split(c.read)
	return comparison(slices.EqualFunc(want, read, func(a, b string) bool {
		x, errA := strconv.ParseUint(a, 16, 32)
		y, errB := strconv.ParseUint(b, 16, 32)
		return errA == nil && errB == nil && x == y
	}))
}
