package plan

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"

	"fettle.dev/fettle/internal/text"
)

// TextInputs are a template's inputs other than values. A run stores them, so that a resume creates
// the same objects.
type TextInputs struct {
	// Helpers are files of templates that this template may call.
	Helpers []Helper
	// MissingZero makes missing variables empty; otherwise they are an error.
	MissingZero bool
	// Env returns an environment variable, File a file's content. Either is nil if templates may
	// not use it.
	Env  func(name string) (string, error)
	File func(name string) (string, error)
	// Now is the result of the function now.
	Now time.Time
}

// Helper is a file of template definitions.
type Helper struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// own are kube-burner's functions (its documentation, "Additional functions").
var own = []string{"Binomial", "GetIPAddress", "GetSubnet24", "IndexToCombination", "ReadFile"}

// random are the functions with results that depend on the seed.
var random = []string{"randAlpha", "randAlphaNum", "randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4"}

// removed maps unsupported sprig functions to the reason.
var removed = func() map[string]string {
	const again = "its result differs each time, so resume could not create the same object; write the text into the template"
	all := map[string]string{"getHostByName": "a plan does not use the network; write the address into the template"}
	for _, name := range []string{
		"bcrypt", "htpasswd", "encryptAES", "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert",
		"genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
	} {
		all[name] = again
	}
	return all
}()

// functions returns the functions for one template.
func (t *TextTemplate) functions(in TextInputs) template.FuncMap {
	all := template.FuncMap(sprig.GenericFuncMap())
	for name := range removed {
		delete(all, name)
	}
	maps.Copy(all, capped(all))
	maps.Copy(all, timed(all, in.Now))
	draw := func(letters string) func(n int) (string, error) {
		return func(n int) (string, error) { return t.draw(letters, n) }
	}
	maps.Copy(all, template.FuncMap{
		"randInt": func(from, to int) (int, error) {
			if to <= from {
				return 0, fmt.Errorf("randInt %d %d: the second number must be larger", from, to)
			}
			return from + t.random.IntN(to-from), nil
		},
		"randAlpha":    draw(letters),
		"randNumeric":  draw(digits),
		"randAlphaNum": draw(letters + digits),
		"randAscii":    draw(printable()),
		"randBytes":    t.bytes,
		"uuidv4":       func() string { return UUID(t.random.Uint64) },
		"shuffle": func(text string) string {
			letters := []rune(text)
			t.random.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
			return string(letters)
		},

		"now":       func() time.Time { return in.Now },
		"ago":       func(v any) string { return ago(in.Now, v) },
		"env":       in.env,
		"expandenv": in.expand,

		// sprig uses the random order of Go maps
		"keys":   keys,
		"values": values,

		"repeat": repeat, "until": until, "untilStep": untilStep,

		"Binomial":           binomial,
		"IndexToCombination": combination,
		"GetSubnet24": func(i int) string {
			return netip.AddrFrom4([4]byte{byte(i>>16 + 1), byte(i >> 8), byte(i), 0}).String() + "/24"
		},
		"GetIPAddress": addresses,
		"ReadFile": func(name string) (string, error) {
			if in.File == nil {
				return "", fmt.Errorf("ReadFile %s: only object templates can read files", name)
			}
			return in.File(name)
		},
	})
	return all
}

// printable returns the ASCII characters from space to tilde.
func printable() string {
	var all strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		all.WriteByte(c)
	}
	return all.String()
}

// draw returns a text of n random letters.
func (t *TextTemplate) draw(letters string, n int) (string, error) {
	if n < 0 || n > maxText {
		return "", text.Errorf("%d random letters: want 0 to %d", n, maxText)
	}
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[t.random.IntN(len(letters))]
	}
	return string(text), nil
}

func (t *TextTemplate) bytes(n int) (string, error) {
	if n < 0 || n > maxText {
		return "", text.Errorf("%d random bytes: want 0 to %d", n, maxText)
	}
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(t.random.Uint64())
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}

// UUID returns a version 4 UUID from two calls of number.
func UUID(number func() uint64) string {
	a, b := number(), number()
	a = a&^0xf000 | 0x4000
	b = b&^(3<<62) | 2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&(1<<48-1))
}

// NewUUID returns a random UUID.
func NewUUID() string { return UUID(rand.Uint64) }

func (in *TextInputs) env(name string) (string, error) {
	if in.Env == nil {
		return "", fmt.Errorf("env %s: environment variables are not available in this template", name)
	}
	return in.Env(name)
}

func (in *TextInputs) expand(text string) (string, error) {
	var failed error
	out := os.Expand(text, func(name string) string {
		value, err := in.env(name)
		failed = errors.Join(failed, err)
		return value
	})
	return out, failed
}

// binomial returns the number of ways to choose k of n items (gonum's combin.Binomial, which
// kube-burner uses).
func binomial(n, k int) (int, error) {
	if n < 0 || k < 0 || k > n {
		return 0, fmt.Errorf("Binomial %d %d: want 0 <= k <= n", n, k)
	}
	all := 1
	for i := 1; i <= min(k, n-k); i++ {
		next := all * (n - min(k, n-k) + i)
		if next/(n-min(k, n-k)+i) != all {
			return 0, fmt.Errorf("Binomial %d %d: too large", n, k)
		}
		all = next / i
	}
	return all, nil
}

// combination returns the combination with an index among all combinations of k numbers below n
// (gonum's combin.IndexToCombination). It ignores its first argument, which kube-burner's templates
// pass.
func combination(_ []int, index, n, k int) ([]int, error) {
	if n > maxList {
		return nil, text.Errorf("IndexToCombination: %d numbers: want %d at most", n, maxList)
	}
	all, err := binomial(n, k)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= all {
		return nil, text.Errorf("IndexToCombination: index %d: want 0 to %d", index, all-1)
	}
	set := make([]int, 0, k)
	for next := 0; len(set) < k; next++ {
		with, err := binomial(n-next-1, k-len(set)-1)
		if err != nil {
			return nil, err
		}
		if index < with {
			set = append(set, next)
		} else {
			index -= with
		}
	}
	return set, nil
}

// addresses returns one iteration's share of a space-separated list.
func addresses(list string, iteration, each int) (string, error) {
	all := strings.Split(list, " ")
	from := iteration * each
	if iteration < 0 || each < 0 || iteration > len(all) || each > len(all) || from+each > len(all) {
		return "", fmt.Errorf("GetIPAddress: iteration %d needs addresses %d to %d, but there are only %d", iteration, from+1, from+each, len(all))
	}
	return strings.Join(all[from:from+each], " "), nil
}

// Replacements for sprig functions with varying results or unlimited memory use.

// timed returns replacements for sprig functions that use the clock for values other than times.
func timed(all template.FuncMap, now time.Time) template.FuncMap {
	date, in := all["date"].(func(string, any) string), all["dateInZone"].(func(string, any, string) string)
	html, htmlIn := all["htmlDate"].(func(any) string), all["htmlDateInZone"].(func(any, string) string)
	round := all["durationRound"].(func(any) string)
	of := func(v any) any {
		switch v.(type) {
		case time.Time, *time.Time, int, int32, int64:
			return v
		}
		return now
	}
	inZone := func(format string, v any, zone string) string { return in(format, of(v), zone) }
	return template.FuncMap{
		"date": func(format string, v any) string { return date(format, of(v)) }, "dateInZone": inZone, "date_in_zone": inZone,
		"htmlDate":       func(v any) string { return html(of(v)) },
		"htmlDateInZone": func(v any, zone string) string { return htmlIn(of(v), zone) },
		"durationRound": func(v any) string {
			if at, is := v.(time.Time); is {
				v = now.Sub(at).String()
			}
			return round(v)
		},
	}
}

func ago(now time.Time, v any) string {
	at := now
	switch v := v.(type) {
	case time.Time:
		at = v
	case int64:
		at = time.Unix(v, 0)
	case int:
		at = time.Unix(int64(v), 0)
	}
	return now.Sub(at).Round(time.Second).String()
}

func keys(dicts ...map[string]any) []string {
	all := []string{}
	for _, d := range dicts {
		all = append(all, slices.Sorted(maps.Keys(d))...)
	}
	return all
}

func values(d map[string]any) []any {
	all := []any{}
	for _, k := range slices.Sorted(maps.Keys(d)) {
		all = append(all, d[k])
	}
	return all
}

func repeat(n int, text string) (string, error) {
	if n < 0 || n > maxText || n*len(text) > maxText {
		return "", fmt.Errorf("repeat %d: output larger than %d MiB", n, maxText>>20)
	}
	return strings.Repeat(text, n), nil
}

// maxList limits the length of lists that templates create.
const maxList = 1_000_000

func until(n int) ([]int, error) {
	if n < 0 {
		return untilStep(0, n, -1)
	}
	return untilStep(0, n, 1)
}

func untilStep(from, to, step int) ([]int, error) {
	var n uint64
	switch {
	case step > 0 && from < to:
		n = (uint64(to)-uint64(from)-1)/uint64(step) + 1
	case step < 0 && from > to:
		n = (uint64(from)-uint64(to)-1)/-uint64(step) + 1
	}
	if n > maxList {
		return nil, text.Errorf("a list from %d to %d by %d has more than %d numbers", from, to, step, maxList)
	}
	all := make([]int, n)
	for i := range all {
		all[i] = from + i*step
	}
	return all, nil
}

// capped returns replacements for sprig functions whose result size depends on an argument.
func capped(all template.FuncMap) template.FuncMap {
	indent, nindent := all["indent"].(func(int, string) string), all["nindent"].(func(int, string) string)
	seq := all["seq"].(func(...int) string)
	lines := func(name string, of func(int, string) string) func(int, string) (string, error) {
		return func(n int, text string) (string, error) {
			if n < 0 || n > maxText || (strings.Count(text, "\n")+1)*n > maxText {
				return "", fmt.Errorf("%s %d: output larger than %d MiB", name, n, maxText>>20)
			}
			return of(n, text), nil
		}
	}
	return template.FuncMap{
		"indent": lines("indent", indent), "nindent": lines("nindent", nindent),
		"seq": func(of ...int) (string, error) {
			for _, n := range of {
				if n < -maxList || n > maxList {
					return "", text.Errorf("seq: want numbers of -%d to %d", maxList, maxList)
				}
			}
			return seq(of...), nil
		},
	}
}
