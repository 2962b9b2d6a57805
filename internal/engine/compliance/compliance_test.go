package compliance

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// The files in testdata are excerpts of what oscap 1.3.7 wrote for rules of the CIS profile in
// ssg-ubuntu2204 0.1.65 (ComplianceAsCode): without texts, and without what no selected rule needs.

func testMachine(t testing.TB) *host.Host {
	t.Helper()
	return machine.Copy(t, map[string]string{
		"/proc/sys/net/ipv4/conf/all/rp_filter": "2\n", "/proc/sys/net/ipv4/ip_forward": "1\n", "/proc/sys/kernel/randomize_va_space": "2\n",
		"/proc/sys/fs/suid_dumpable": "2\n", "/proc/sys/net/ipv4/conf/all_rp/filter": "", "/proc/sys/net/ipv4/conf/default/rp_filter": "2\n",
	})
}

func requirements(t *testing.T, file string) (d *Document, lines []string, others int) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if d, err = Read(bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	all, others := d.Requirements(testMachine(t))
	for _, r := range all {
		lines = append(lines, r.Short()+" "+r.Setting.String()+" ["+strings.Join(r.Allowed, "|")+"] "+r.Result)
	}
	return d, lines, others
}

// TestARF tests that the values come from the checks of the document.
func TestARF(t *testing.T) {
	d, got, others := requirements(t, "arf.xml")
	if !d.Checks || len(got) != 38 || others != 2 {
		t.Errorf("%d requirements, %d other rules\n%s", len(got), others, strings.Join(got, "\n"))
	}
	for _, want := range []string{
		"sysctl_net_ipv4_conf_all_rp_filter sysctl:net.ipv4.conf.all.rp_filter [1] fail", // by a variable that the profile sets
		"sysctl_net_ipv4_ip_forward sysctl:net.ipv4.ip_forward [0] fail",
		"sysctl_kernel_randomize_va_space sysctl:kernel.randomize_va_space [2] fail",
		"sysctl_fs_protected_hardlinks sysctl:fs.protected_hardlinks [1] pass",
		"service_autofs_disabled unit:autofs.service/active [] pass", // alternatives, one of them negated
	} {
		if !slices.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "prefer_64bit_os") }) {
		t.Error("a rule that was not selected requires something")
	}
}

// TestXCCDF tests that a document without checks names settings, but no value that it does not have.
func TestXCCDF(t *testing.T) {
	d, got, _ := requirements(t, "xccdf.xml")
	want := []string{
		"sysctl_net_ipv4_conf_all_rp_filter sysctl:net.ipv4.conf.all.rp_filter [] fail",
		"sysctl_net_ipv4_conf_default_rp_filter sysctl:net.ipv4.conf.default.rp_filter [1] fail", // equals is XCCDF's default
		"service_autofs_disabled unit:autofs.service/active [] pass",
		"service_autofs_disabled unit:autofs.service/enabled [] pass",
		"sysctl_net_ipv4_ip_forward sysctl:net.ipv4.ip_forward [] fail",
		"sysctl_fs_suid_dumpable sysctl:fs.suid_dumpable [] fail",
		"sysctl_kernel_randomize_va_space sysctl:kernel.randomize_va_space [] fail",
	}
	slices.Sort(got)
	slices.Sort(want)
	// all_rp_filter fits all/rp_filter and all_rp/filter, so it is not known which one is meant.
	want = slices.DeleteFunc(want, func(l string) bool { return strings.Contains(l, "conf_all_rp") })
	if d.Checks || !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func wrap(body string) string {
	return `<a xmlns:o="urn:o"><TestResult><rule-result idref="x_rule_r"><result>pass</result><check><check-content-ref name="d1"/></check></rule-result></TestResult>` + body + `</a>`
}

// check is a definition of one test with attributes, object and states.
func check(criteria, test, object, states string) string {
	return wrap(`<o:definition id="d1" class="compliance">` + criteria + `</o:definition><o:sysctl_test id="t1" ` + test + `><o:object object_ref="o1"/>` +
		`<o:state state_ref="s1"/></o:sysctl_test>` + `<o:sysctl_object id="o1"><o:name ` + object + `</o:name></o:sysctl_object><o:sysctl_state id="s1">` + states + `</o:sysctl_state>`)
}

// TestUnclear tests checks whose value is not a single known one.
func TestUnclear(t *testing.T) {
	const plain, object = `<o:criteria><o:criterion test_ref="t1"/></o:criteria>`, ">a.b"
	for _, c := range []struct{ what, doc, want string }{
		{"equals", check(plain, "", object, `<o:value>1</o:value>`), "sysctl:a.b [1]"},
		{"at least", check(plain, "", object, `<o:value operation="greater than or equal">3</o:value>`), "sysctl:a.b [>=3]"},
		{"another comparison", check(plain, "", object, `<o:value operation="not equal">3</o:value>`), "sysctl:a.b []"},
		{"a pattern", check(plain, "", object, `<o:value operation="pattern match">^[12]$</o:value>`), "sysctl:a.b []"},
		{"an unknown variable", check(plain, "", object, `<o:value var_ref="v1"/>`), "sysctl:a.b []"},
		{"negated", check(`<o:criteria negate="true">`+plain+`</o:criteria>`, "", object, `<o:value>1</o:value>`), "sysctl:a.b []"},
		{"negated twice", check(`<o:criteria negate="true"><o:criterion negate="true" test_ref="t1"/></o:criteria>`, "", object, `<o:value>1</o:value>`), "sysctl:a.b [1]"},
		{"negated by 1", check(`<o:criteria negate="1">`+plain+`</o:criteria>`, "", object, `<o:value>1</o:value>`), "sysctl:a.b []"},
		{"none may be", check(plain, `check="none satisfy"`, object, `<o:value>1</o:value>`), "sysctl:a.b []"},
		{"a pattern of names", check(plain, "", ` operation="pattern match">^a`, `<o:value>1</o:value>`), ""},
		{"a name with an equals sign", check(plain, "", ">a.b=c", `<o:value>1</o:value>`), ""},
		{"a value after a long text", check(plain, "", object, `<o:value>1<!-- -->`+strings.Repeat("1", 2*maxText)+`</o:value>`), "sysctl:a.b []"},
		{"a name outside", check(plain, "", ">../../etc/passwd", `<o:value>1</o:value>`), ""},
		{"an endless definition", check(`<o:criteria><o:extend_definition definition_ref="d1"/><o:criterion test_ref="t1"/></o:criteria>`, "", object, `<o:value>1</o:value>`), "sysctl:a.b [1]"},
		{"a value with a bracket", check(plain, "", object, `<o:value>1] = x</o:value>`), "sysctl:a.b []"},
		{"a long value", check(plain, "", object, `<o:value>`+strings.Repeat("1", 2*maxText)+`</o:value>`), "sysctl:a.b []"},
	} {
		d, err := Read(strings.NewReader(c.doc))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		got := ""
		all, _ := d.Requirements(testMachine(t))
		for _, r := range all {
			got += r.Setting.String() + " [" + strings.Join(r.Allowed, "|") + "]"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestHostile tests documents that are refused.
func TestHostile(t *testing.T) {
	for what, doc := range map[string]string{
		"a DTD":               `<!DOCTYPE a [<!ENTITY x "1">]>` + wrap(""),
		"an entity":           wrap("&x;"),
		"depth":               strings.Repeat("<a>", 1_000_000),
		"no result":           "<a/>",
		"cut off":             wrap("")[:100],
		"not XML":             "PK\x03\x04",
		"a STIG checklist":    "<CHECKLIST><ASSET/></CHECKLIST>",
		"a checklist in JSON": `{"title":"STIG","cklb_version":"1.0"}`,
		"another encoding":    `<?xml version="1.0" encoding="UTF-16"?>` + wrap(""),
		"too many criteria":   wrap(`<o:definition id="d" class="c">` + strings.Repeat(`<o:criterion test_ref="x"/>`, maxItems+1) + `</o:definition>`),
	} {
		if d, err := Read(strings.NewReader(doc)); err == nil {
			t.Errorf("%s: accepted: %+v", what, d)
		}
	}
}

// TestUnits tests the names of units.
func TestUnits(t *testing.T) {
	for name, want := range map[string]string{
		"autofs.service": "autofs.service", `^autofs\.(service|socket)$`: "autofs.service autofs.socket", `^rsyslog\.service$`: "rsyslog.service",
		`^.*\.service$`: "", "../x.service": "", `^a\.(exe|service)$`: "a.service", "": "",
	} {
		if got := strings.Join(unitNames(name), " "); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// FuzzRead tests that no document makes the reader fail or name a setting outside.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"arf.xml", "xccdf.xml", "arf-arguments.xml"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(check(`<o:criteria><o:criterion test_ref="t1"/></o:criteria>`, "", ">a.b", `<o:value>1</o:value>`)))
	h := testMachine(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		all, _ := d.Requirements(h)
		for _, r := range all {
			if !slices.Contains([]string{"sysctl", "unit", "cmdline", "module", "modprobe"}, r.Setting.Kind) || strings.ContainsAny(r.Setting.Name, "\n\x00*") || strings.Contains(r.Setting.Name, "..") {
				t.Errorf("%q", r.Setting.Name)
			}
			for _, a := range r.Allowed {
				if strings.ContainsAny(a, "[]|\n") || a == "" {
					t.Errorf("%q", a)
				}
			}
		}
	})
}
