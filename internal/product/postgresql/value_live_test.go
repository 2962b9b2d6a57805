package postgresql

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// bases is what a number of "postgres -C" counts, in the unit of the parameter.
var bases = map[string]float64{
	"shared_buffers": blocks, "work_mem": kB, "max_wal_size": mB, "temp_file_limit": kB, "checkpoint_timeout": 1, "log_min_duration_statement": 1e-3,
	"idle_in_transaction_session_timeout": 1e-3, "max_connections": 1, "random_page_cost": 1, "effective_cache_size": blocks,
}

// outsideRange is what PostgreSQL says of a value outside of a range: the value and the
// lower end.
var outsideRange = regexp.MustCompile(`(-?[\d.]+)(?: \S+)? is outside the valid range for parameter "\S+" \((-?[\d.]+)`)

// TestNumbersAsPostgreSQL makes numbers at random, and asks the real server what each is.
func TestNumbersAsPostgreSQL(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(all) == 0 {
		t.Fatalf("no server: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"postgresql.conf", autoConf} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rounds := 60
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		rounds = 1500
	}
	names := slices.Sorted(maps.Keys(bases))
	r := rand.New(rand.NewPCG(6, 18))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	taken, refused, outside := 0, 0, 0
	for range rounds {
		name := names[r.IntN(len(names))]
		p, base := parameters[slices.IndexFunc(parameters, func(p product.Parameter) bool { return p.Name == name })], bases[name]
		value := pick("", "", "", " ", "+", "-") + pick(strconv.Itoa(r.IntN(2000)), fmt.Sprintf("%.*f", r.IntN(4), r.Float64()*300), "0"+strconv.Itoa(r.IntN(800)), fmt.Sprintf("0x%x", r.IntN(3000)), "2.5", "3.5", ".5", "7.", "1e3", "15e-1", "1") +
			pick("", " ")
		switch {
		case p.Unit == "bytes":
			value += pick("", "kB", "MB", "GB", "B", "TB", "kb", "M", "mB")
		case p.Unit == "s":
			value += pick("", "ms", "s", "min", "h", "us", "d", "S", "m")
		default:
			value += pick("", "", "", "kB", "x")
		}
		out, err := exec.CommandContext(t.Context(), all[0], "-C", p.Name, "-c", p.Name+"="+value, "-D", dir).CombinedOutput()
		text := strings.TrimSpace(string(out))
		got, gotErr := p.Read(value)
		switch {
		case err != nil && strings.Contains(text, "is outside the valid range") && gotErr == nil:
			outside++ // fettle knows the lower ends
			m := outsideRange.FindStringSubmatch(text)
			if m == nil {
				t.Fatalf("%s = %q: %s", p.Name, value, text)
			}
			is, _ := strconv.ParseFloat(m[1], 64)
			if low, _ := strconv.ParseFloat(m[2], 64); is < low {
				t.Errorf("%s = %q is %v; PostgreSQL: %s", p.Name, value, got, text)
			}
			continue
		case err != nil:
			if refused++; gotErr == nil {
				t.Errorf("%s = %q is %v; PostgreSQL: %s", p.Name, value, got, text)
			}
			continue
		case gotErr != nil:
			t.Errorf("%s = %q: %v; PostgreSQL has %s", p.Name, value, gotErr, text)
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s = %q: %s", p.Name, value, text)
		}
		if n != -1 {
			n *= base
		}
		taken++
		if fmt.Sprintf("%.9g", got) != fmt.Sprintf("%.9g", n) {
			t.Errorf("%s = %q is %v; PostgreSQL has %s, %v", p.Name, value, got, text, n)
		}
		// What "the same for any parameter" is, is the same for this one.
		if p.Type == fact.Number && canonical(value) != canonical(" "+value+" ") {
			t.Errorf("%q is not itself", value)
		}
	}
	t.Logf("%s: %d values taken, %d refused, %d out of range", all[0], taken, refused, outside)
	if taken < rounds/15 || refused < rounds/20 {
		t.Error("too few were compared")
	}
}
