package profile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// noOracle are the functions added after TuneD 2.20: functions_test.go has separate cases for them.
var noOracle = []string{"intel_recommended_pstate", "log", "lscpu_check", "package2cpus", "package2uncores"}

// functionDifferences are those of Differences that the result of a function can show. A vector
// belongs to the first one whose predicate is true. Its results are then checked on both sides.
var functionDifferences = []struct {
	id  string
	hit func(v vector) bool
	// holds reports whether the difference allows the two results.
	holds func(v vector, tuned, ours string) bool
}{
	{
		id:  "cpu-number-limit",
		hit: func(v vector) bool { return v.class == "limit" },
		holds: func(_ vector, tuned, ours string) bool {
			return !strings.HasPrefix(tuned, "error: ") && strings.HasPrefix(ours, "error: CPU ") &&
				strings.Contains(ours, "no kernel has more than 8192 CPUs")
		},
	},
	{
		id:  "ascii-digits",
		hit: func(v vector) bool { return v.class == "digits" },
		holds: func(v vector, tuned, ours string) bool {
			ascii := strings.NewReplacer("٣", "3")
			want := make([]string, len(v.args))
			for i, a := range v.args {
				want[i] = ascii.Replace(a)
			}
			inASCII := call(v.t, v.host, v.function, want...)
			if v.function == "check_net_queue_count" { // gives the text itself
				return tuned == v.args[0] && strings.HasSuffix(ours, "\n")
			}
			return sameCPUs(tuned, inASCII) && ours != tuned &&
				(ours == "" || ours == "<none>" || ours == "00000000" || strings.HasSuffix(v.function, "invert"))
		},
	},
	{
		id:  "regexp-dialect",
		hit: func(v vector) bool { return v.class == "regexp" },
		holds: func(_ vector, tuned, ours string) bool {
			return !strings.HasPrefix(tuned, "error: ") && strings.HasPrefix(ours, "error: regular expression ")
		},
	},
	{
		id:  "isolated-cores-packed",
		hit: func(v vector) bool { return v.function == "calc_isolated_cores" },
		holds: func(_ vector, tuned, ours string) bool {
			return ours == tuned || sameCPUs(tuned, ours) && strings.Contains(ours, "-") && !strings.Contains(tuned, "-")
		},
	},
	{
		id:  "invert-order",
		hit: func(v vector) bool { return v.function == "cpulist_invert" && v.machine == "sparse" },
		holds: func(_ vector, tuned, ours string) bool {
			numbers := strings.Split(tuned, ",")
			slices.SortFunc(numbers, func(a, b string) int {
				if len(a) != len(b) {
					return len(a) - len(b)
				}
				return strings.Compare(a, b)
			})
			return strings.Join(numbers, ",") == ours
		},
	},
}

// sameCPUs compares CPU lists as sets, and other texts exactly.
func sameCPUs(a, b string) bool {
	x, errA := unit.ParseCPUList(a)
	y, errB := unit.ParseCPUList(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return x.Equal(y)
}

// vector is one call that TuneD and fettle evaluate.
type vector struct {
	t        *testing.T
	host     *host.Host
	machine  string
	function string
	args     []string
	class    string // what the generator put in, "" if nothing special
}

const vectorsPerFunction = 1000

func TestFunctionsAgainstTuned(t *testing.T) {
	o := startOracle(t)
	testFunctionNames(t, o)

	machines := []string{"small", "sockets", "sparse", "wide"}
	files := map[string]map[string]string{
		"small":   inventedCPUs(2, 1, "0-1"),
		"sockets": inventedCPUs(8, 2, "0-4,6-7", 5),
		"sparse":  inventedCPUs(300, 4, "0-2,17,64-65,128,200-299"),
		"wide":    inventedCPUs(72, 3, "0-71"),
	}
	files["wide"]["/sys/devices/system/cpu/cpu3/topology/physical_package_id"] = "-1\n"
	dirs, hosts := map[string]string{}, map[string]*host.Host{}
	for _, m := range machines {
		dirs[m], hosts[m] = o.machine(m, files[m])
	}
	// What runs programs, or asks for this process's own CPUs, runs in the root
	// itself.
	live := *host.Live()
	live.Exec = rootExec{o.root}

	seen := map[string]int{}
	for _, f := range Functions {
		if slices.Contains(noOracle, f.Name) {
			continue
		}
		r := rand.New(rand.NewPCG(220, uint64(len(f.Name))))
		count, failures := vectorsPerFunction, 0
		if f.Executes {
			count = 60
		}
		for i := range count {
			v := vector{t: t, function: f.Name, machine: machines[i%len(machines)]}
			v.args, v.class = randomArgs(r, f)
			v.host = hosts[v.machine]
			q := question{Op: "call", Name: f.Name, Args: v.args, Machine: dirs[v.machine]}
			if f.Executes || f.Name == "check_net_queue_count" {
				v.machine, v.host, q.Machine = "live", &live, ""
			}
			tuned, ours := tunedResult(o.ask(q)), call(t, v.host, f.Name, v.args...)
			if !agree(v, tuned, ours, seen) {
				if failures++; failures > 5 {
					break
				}
			}
		}
	}
	for _, d := range functionDifferences {
		if seen[d.id] < 50 {
			t.Errorf("%s: only %d vectors", d.id, seen[d.id])
		}
		if !slices.ContainsFunc(Differences, func(e Difference) bool { return e.ID == d.id }) {
			t.Errorf("%s: not in Differences", d.id)
		}
	}
	t.Logf("vectors that agree: %d; by difference: %v", seen[""], seen)
}

// testFunctionNames checks that the table has TuneD's functions and those of noOracle.
func testFunctionNames(t *testing.T, o *oracle) {
	t.Helper()
	theirs := o.ask(question{Op: "version"}).Functions
	for _, f := range Functions {
		if slices.Contains(theirs, f.Name) == slices.Contains(noOracle, f.Name) {
			t.Errorf("%s: TuneD here has it: %v; listed as without oracle: %v", f.Name,
				slices.Contains(theirs, f.Name), slices.Contains(noOracle, f.Name))
		}
	}
	if len(theirs) != len(Functions)-len(noOracle) {
		t.Errorf("TuneD has %d functions: %v", len(theirs), theirs)
	}
}

func tunedResult(a oracleAnswer) string {
	switch {
	case a.Raised != "":
		return "error: " + a.Raised + ": " + a.Message
	case a.Result == nil:
		return "<none>"
	}
	return *a.Result
}

func agree(v vector, tuned, ours string, seen map[string]int) bool {
	v.t.Helper()
	for _, d := range functionDifferences {
		if d.hit(v) {
			seen[d.id]++
			if !d.holds(v, tuned, ours) {
				v.t.Errorf("%s: %s%q on %s: TuneD %.200q, ours %.200q", d.id, v.function, v.args, v.machine, tuned, ours)
				return false
			}
			return true
		}
	}
	seen[""]++
	bothFail := strings.HasPrefix(tuned, "error: ") && strings.HasPrefix(ours, "error: ")
	if tuned != ours && !bothFail {
		v.t.Errorf("%s%q on %s: TuneD %.200q, ours %.200q", v.function, v.args, v.machine, tuned, ours)
		return false
	}
	return true
}

// randomArgs returns arguments for a function, including wrong ones.
func randomArgs(r *rand.Rand, f Function) (args []string, class string) {
	count := f.MinArgs + r.IntN(3)
	if f.MaxArgs > 0 && r.IntN(10) > 0 {
		count = min(count, f.MaxArgs)
	}
	if r.IntN(40) == 0 {
		count = r.IntN(6)
	}
	for i := range count {
		args = append(args, randomArg(r, f.Name, i))
	}
	if len(args) == 0 || !f.accepts(len(args)) {
		return args, ""
	}
	takesCPUs := strings.HasPrefix(f.Name, "cpulist")
	switch special := r.IntN(12); {
	case special == 0 && takesCPUs:
		// TuneD answers these lists with thousands of numbers.
		return []string{pick(r, []string{"20000", "1-20000", "0,20000", "20000-20001"})}, "limit"
	case special == 1 && (takesCPUs || f.Name == "kb2s" || f.Name == "s2kb" || f.Name == "check_net_queue_count"):
		if takesCPUs {
			return []string{pick(r, []string{"0,٣", "0-٣", "0,1٣", "٣-7,0"})}, "digits"
		}
		return []string{pick(r, []string{"٣", "٣٣", "1٣"})}, "digits"
	case special < 3 && f.Name == "regex_search_ternary":
		args[1] = pick(r, []string{"a(?=b)", "(?<=a)b", `(a)\1`, "(?!x)a", "(?<!x)b"})
		return args, "regexp"
	case special < 3 && f.Name == "cpuinfo_check":
		return []string{pick(r, []string{"Intel(?=x)", "(?<=Genuine)Intel", `(f)pu \1`, "^(?!flags)model"}), "yes", "no"}, "regexp"
	}
	return args, ""
}

func randomArg(r *rand.Rand, function string, index int) string {
	switch function {
	case "assertion", "assertion_non_equal":
		return pick(r, []string{"a", "b", "", "message text", "1"})
	case "calc_isolated_cores":
		return pick(r, []string{"0", "1", "2", "3", "10", "99999999999999999999", "-1", "+1", " 1", "", "x", "1_0", "007"})
	case "check_net_queue_count":
		return pick(r, []string{"4", "0", "16", "", "auto", "-1", " 4", "4 ", "1.5", "007"})
	case "cpuinfo_check", "regex_search_ternary":
		if function == "cpuinfo_check" && index%2 == 1 || function == "regex_search_ternary" && index > 1 {
			return pick(r, []string{"yes", "no", "", "performance", "a b"})
		}
		if function == "regex_search_ternary" && index == 0 {
			return pick(r, []string{"", "abc", "a\nb", "abc\n", "isolated_cores=2-3", "A-b_9", "ünïcode", "foo bar  baz", "0,1,2"})
		}
		return randomRegexp(r)
	case "exec":
		if index == 0 {
			return pick(r, []string{"echo", "printf", "true", "false", "no-such-program", "uname", "sh"})
		}
		return pick(r, []string{"a", "b c", "-n", `x\ny\r\nz`, ""})
	case "hex2cpulist":
		return randomMask(r)
	case "kb2s", "s2kb":
		n := pick(r, []string{"0", "1", "2", "3", "5", "7", "128", "4095", "9007199254740993", "123456789012345678901234567890", "x", "", "4k", "1.5", "1_000", "1__0", "_1", "1_", "0x10"})
		return pick(r, []string{"", "", "-", "+", " ", "\t", "--", "\u00a0", "\x1f"}) + n + pick(r, []string{"", "", "", " ", "\n", "\u2003"})
	case "strip":
		return pick(r, []string{" ", "", "foo", " foo bar", "x \t\n", "\x1c", "\u00a0y", "\u200b", "\u3000", "\u0085"})
	case "virt_check":
		return pick(r, []string{"vm", "metal", "", "a b"})
	}
	return randomCPUList(r)
}

// randomCPUList returns lists in TuneD's grammar, some with mistakes.
func randomCPUList(r *rand.Rand) string {
	var elems []string
	for range r.IntN(5) {
		n := func() int { return r.IntN(pick(r, []int{4, 10, 80, 320})) }
		a := n()
		switch r.IntN(10) {
		case 0, 1, 2:
			elems = append(elems, fmt.Sprint(a))
		case 3, 4:
			elems = append(elems, fmt.Sprintf("%d-%d", a, a+r.IntN(40)))
		case 5:
			elems = append(elems, pick(r, []string{"^", "!"})+fmt.Sprint(a))
		case 6:
			elems = append(elems, pick(r, []string{"^", "!"})+fmt.Sprintf("%d-%d", a, n()))
		case 7:
			elems = append(elems, "0x"+strings.TrimPrefix(randomMask(r), "0x"), pick(r, []string{"", "", "f"}))
		case 8:
			elems = append(elems, fmt.Sprintf("%d-%d", a, n()))
		case 9:
			elems = append(elems, pick(r, []string{"", " 3", "3 ", "+3", "0_1", "1-2-3", "x", "3-", "-3", "^", "!x", "^1-2-3", "'2'", "0x", "0X1F", "0xg", "1 2", "!-1", "\u00a05"}))
		}
	}
	list := strings.Join(elems, ",")
	switch r.IntN(12) {
	case 0:
		return `"` + list + `"`
	case 1:
		return "'" + list + "\"'"
	case 2:
		return list + "\n"
	}
	return list
}

func randomMask(r *rand.Rand) string {
	prefix := pick(r, []string{"0x", "0x", "0x", "0X", ""})
	mask := fmt.Sprintf("%x", r.Uint32()>>r.IntN(32))
	switch r.IntN(8) {
	case 0:
		mask += "," + fmt.Sprintf("%08x", r.Uint32())
	case 1:
		mask = pick(r, []string{"g", "", "_f", "f_f", "f__f", " f", "f ", "-f", "+3", "f,", ",f", "0xf", "0", "00000000,00000001"})
	case 2:
		mask = strings.ToUpper(mask)
	}
	if r.IntN(20) == 0 {
		prefix = pick(r, []string{"-", "+", "-0x", " 0x"})
	}
	return prefix + mask
}

// randomRegexp returns patterns that have the same meaning in Python and in RE2, or are invalid in
// both.
func randomRegexp(r *rand.Rand) string {
	atom := func() string {
		return pick(r, []string{"a", "b", "Intel", "fpu", `\d`, `\w+`, `\s`, ".", "[a-c]", "[^0-9]", "(abc|b)", "(?:x|y)?", `\.`, "model name", "processor", `\S`, `\b`, "isolated_cores", "[0-9]+", "b{1,2}"})
	}
	switch r.IntN(10) {
	case 0:
		return ""
	case 1:
		return "^" + atom()
	case 2:
		return atom() + "$"
	case 3:
		return pick(r, []string{"(", "[", "*a", "a)", "(?P<n>a", "a{2,1}"})
	case 4:
		return "^" + atom() + ".*" + atom() + "$"
	case 5:
		return `vendor_id\s+:\s` + pick(r, []string{"GenuineIntel", "AuthenticAMD"})
	}
	var b strings.Builder
	for range 1 + r.IntN(3) {
		a := atom()
		b.WriteString(a)
		if !strings.ContainsAny(a[len(a)-1:], "}?*+") && a != `\b` { // a second repeat is possessive in Python
			b.WriteString(pick(r, []string{"", "", "*", "+", "?"}))
		}
	}
	return b.String()
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
