package compliance

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/machine"
)

// document has a definition with these criteria. The tests A to D compare the variables a.a to a.d
// with 1; P is a test of another kind. results are the results of the scan.
func document(criteria, results string) string {
	criteria = strings.NewReplacer(
		"(and", `<o:criteria operator="AND"`, "(or", `<o:criteria operator="OR"`, "(one", `<o:criteria operator="ONE"`, "(xor", `<o:criteria operator="XOR"`,
		" not>", ` negate="true">`, ")", "</o:criteria>",
		"!A", `<o:criterion negate="true" test_ref="A"/>`, "!P", `<o:criterion negate="true" test_ref="P"/>`,
		"=A", `<o:criterion test_ref="A"/>`, "=B", `<o:criterion test_ref="B"/>`, "=C", `<o:criterion test_ref="C"/>`, "=P", `<o:criterion test_ref="P"/>`, "=2", `<o:criterion test_ref="A2"/>`,
		"=X", `<o:extend_definition definition_ref="x"/>`,
	).Replace(criteria)
	body := `<o:definition id="d1" class="compliance">` + criteria + `</o:definition>` +
		`<o:definition id="x" class="compliance"><o:criteria operator="OR"><o:criterion test_ref="B"/><o:criterion test_ref="P"/></o:criteria></o:definition>`
	for _, name := range []string{"A", "B", "C", "A2"} {
		variable, value := "a."+strings.ToLower(name[:1]), "1"
		if name == "A2" {
			value = "2"
		}
		body += fmt.Sprintf(`<o:sysctl_test id="%[1]s"><o:object object_ref="o%[1]s"/><o:state state_ref="s%[1]s"/></o:sysctl_test><o:sysctl_object id="o%[1]s"><o:name>%[2]s</o:name></o:sysctl_object><o:sysctl_state id="s%[1]s"><o:value>%[3]s</o:value></o:sysctl_state>`, name, variable, value)
	}
	for _, r := range strings.Fields(results) {
		id, result, _ := strings.Cut(r, "=")
		body += `<r:test xmlns:r="urn:r" test_id="` + id + `" result="` + result + `"/>`
	}
	return wrap(body)
}

// TestCriteria tests alternatives and negation. On the machine a.a is 1, a.b and a.c are 0.
func TestCriteria(t *testing.T) {
	h := machine.Copy(t, map[string]string{"/proc/sys/a/a": "1\n", "/proc/sys/a/b": "0\n", "/proc/sys/a/c": "0\n"})
	for _, c := range []struct{ criteria, results, want string }{
		{"(and>=A=B)", "", "a.a[1] a.b[1]"},
		{"(or>=A=B)", "", "a.a[1]"},
		{"(or>=B=A)", "", "a.a[1]"},
		{"(or>=B=C)", "", "a.b[1] a.c[1]"}, // none is met: each is required
		{"(or>=B=P)", "P=true", ""},        // another branch suffices: not a package, for example
		{"(or>=B=P)", "P=false", "a.b[1]"},
		{"(or>=B=P)", "P=error", "a.b[1]"},
		{"(or>=B=P)", "P=true P=false", "a.b[1]"},  // of two variables
		{"(or>=B!P)", "P=false", ""},               // negated
		{"(or>=A=2)", "", "a.a[1]"},                // the value in place
		{"(or>=2(and>=2=B))", "", "a.a[2] a.b[1]"}, // not met: each alternative
		{"(and>=A=2)", "", "a.a[]"},                // no value fulfills both
		{"(and not>=A=B)", "", "a.b[]"},            // not both = one of them not; b is not
		{"(or not>=B=C)", "", "a.b[] a.c[]"},       // neither of them
		{"(and not>(or not>=A=B))", "", "a.a[1]"},
		{"(one>=A=B)", "", "a.a[] a.b[]"},
		{"(xor>=A=B)", "", "a.a[] a.b[]"},
		{"(and>=A=X)", "P=true", "a.a[1]"}, // the other definition has alternatives
		{"(and>=A=X=X)", "P=false", "a.a[1] a.b[1]"},
		{"(or>(and>=A=P)(and>=B=P))", "P=true", "a.a[1]"},
		{"(or>!A=B)", "", "a.a[] a.b[1]"},
		{"", "", ""},
		{"(or>)", "", ""},
	} {
		d, err := Read(strings.NewReader(document(c.criteria, c.results)))
		if err != nil {
			t.Fatal(err)
		}
		all, others := d.Requirements(h)
		var got []string
		for _, r := range all {
			got = append(got, r.Setting.Name+"["+strings.Join(r.Allowed, "|")+"]")
		}
		if text := strings.Join(got, " "); text != c.want || (others == 1) != (c.want == "") {
			t.Errorf("%s with %s: %q, want %q; %d others", c.criteria, c.results, text, c.want, others)
		}
	}
}

// TestAlternativeValues tests that alternatives for one setting allow each value.
func TestAlternativeValues(t *testing.T) {
	h := machine.Copy(t, map[string]string{"/proc/sys/a/a": "0\n"})
	d, err := Read(strings.NewReader(document("(or>=A=2)", "")))
	if err != nil {
		t.Fatal(err)
	}
	if all, _ := d.Requirements(h); len(all) != 1 || strings.Join(all[0].Allowed, "|") != "1|2" {
		t.Errorf("%+v", all)
	}
}

// TestArguments tests kernel arguments, modules and units of an excerpt of what oscap 1.3.7 wrote
// for the profile ospp of ssg-rhel9 0.1.65, and of names alone.
func TestArguments(t *testing.T) {
	_, got, _ := requirements(t, "arf-arguments.xml")
	want := []string{
		"service_auditd_enabled unit:auditd.socket/active [active] fail",
		"service_auditd_enabled unit:auditd.service/active [active] fail",
		"service_auditd_enabled unit:auditd.service/enabled [enabled] fail",
		"service_auditd_enabled unit:auditd.socket/enabled [enabled] fail",
		"grub2_audit_argument cmdline:audit [1] fail",
		"grub2_systemd_debug-shell_argument_absent cmdline:systemd.debug_shell [] fail",
		"grub2_vsyscall_argument cmdline:vsyscall [none] fail",
		"kernel_module_can_disabled module:can [unloaded] fail",
		"kernel_module_can_disabled modprobe:can [] fail",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for rule, want := range map[string]string{
		"grub2_audit_argument": "cmdline:audit", "coreos_audit_backlog_limit_kernel_argument": "cmdline:audit_backlog_limit", "zipl_vsyscall_argument": "cmdline:vsyscall",
		"grub2_systemd_debug-shell_argument_absent": "cmdline:systemd_debug_shell", "kernel_module_usb-storage_disabled": "module:usb_storage modprobe:usb_storage",
		"kernel_module_ipv6_option_disabled": "modprobe:ipv6", "service_kdump_disabled": "unit:kdump.service/active unit:kdump.service/enabled",
		"grub2_password": "", "kernel_module__disabled": "", "mount_option_dev_shm_nodev": "", "package_audit_installed": "",
	} {
		d := &Document{}
		var names []string
		for _, r := range d.byName(testMachine(t), &RuleResult{ID: "x_rule_" + rule}) {
			names = append(names, r.Setting.String())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
}

// TestArgumentOf tests the patterns of benchmarks.
func TestArgumentOf(t *testing.T) {
	for _, c := range []struct{ pattern, want string }{
		{`^(?:.*\s)?audit=1(?:\s.*)?$`, "audit=1"},
		{`^(?:.*\s)?slab_nomerge(?:\s.*)?$`, "slab_nomerge"},
		{`^(?:.*\s)?page_alloc\.shuffle=1(?:\s.*)?$`, "page_alloc.shuffle=1"},
		{`^(?:.*\s)?slub_debug=FZP(?:\s.*)?$`, "slub_debug=FZP"},
		{`^(?:.*\s)?mds=full,nosmt(?:\s.*)?$`, "mds=full,nosmt"},
		{`\baudit=1\b`, "audit=1"},
		{`audit=1`, "audit"}, // also audit=10
		{`^(?:.*\s)?audit=[12](?:\s.*)?$`, ""},
		{`^(?:.*\s)?(?:audit|x)=1(?:\s.*)?$`, ""},
		{`^options (.*)$`, ""},
		{`.*`, ""},
		{`(`, ""},
		{``, ""},
	} {
		name, value, ok := argumentOf(c.pattern)
		got := name
		if value != "" {
			got += "=" + value
		}
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, want %q", c.pattern, got, c.want)
		}
	}
}

// TestJoinedVariable tests a pattern that OVAL joins of literals and of a value of the profile.
func TestJoinedVariable(t *testing.T) {
	doc := func(exported, concat string) string {
		return `<a xmlns:o="urn:o"><TestResult><set-value idref="v">full</set-value><rule-result idref="x_rule_r"><result>fail</result><check>` + exported + `<check-content-ref name="d1"/></check></rule-result></TestResult>` +
			`<o:definition id="d1" class="compliance"><o:criteria><o:criterion test_ref="t"/></o:criteria></o:definition>` +
			`<o:textfilecontent54_test id="t"><o:object object_ref="o"/><o:state state_ref="s"/></o:textfilecontent54_test>` +
			`<o:textfilecontent54_object id="o"><o:filepath>/etc/default/grub</o:filepath><o:pattern operation="pattern match">^GRUB="(.*)"$</o:pattern></o:textfilecontent54_object>` +
			`<o:textfilecontent54_state id="s"><o:subexpression operation="pattern match" var_ref="joined"/></o:textfilecontent54_state>` +
			`<o:local_variable id="joined">` + concat + `</o:local_variable><o:external_variable id="e"/></a>`
	}
	const concat = `<o:concat><o:literal_component>^(?:.*\s)?mds=</o:literal_component><o:variable_component var_ref="e"/><o:literal_component>(?:\s.*)?$</o:literal_component></o:concat>`
	for _, c := range []struct{ what, doc, want string }{
		{"a value of the profile", doc(`<check-export export-name="e" value-id="v"/>`, concat), "cmdline:mds [full]"},
		{"a value that is missing", doc("", concat), ""},
		{"another calculation", doc(`<check-export export-name="e" value-id="v"/>`, `<o:substring>`+concat+`</o:substring>`), ""},
		{"an endless variable", doc("", `<o:concat>`+strings.Repeat(`<o:variable_component var_ref="joined"/>`, 9)+`</o:concat>`), ""},
	} {
		d, err := Read(strings.NewReader(c.doc))
		if err != nil {
			t.Fatal(err)
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

// TestBoundedWork tests documents that are small and make a naive reader work or grow without limit.
func TestBoundedWork(t *testing.T) {
	// Each definition refers to the next one three times.
	var chain strings.Builder
	for i := range 60 {
		fmt.Fprintf(&chain, `<o:definition id="d%d" class="c"><o:criteria operator="OR">%s</o:criteria></o:definition>`, i+1, strings.Repeat(fmt.Sprintf(`<o:extend_definition definition_ref="d%d"/>`, i+2), 3))
	}
	// Comments cut the text into many pieces.
	pieces := `<o:sysctl_state id="s"><o:value>` + strings.Repeat("x<!---->", 1<<20) + `</o:value></o:sysctl_state>`
	done := make(chan string, 1)
	go func() {
		var before, after runtime.MemStats
		for what, body := range map[string]string{"definitions": chain.String(), "pieces": pieces} {
			runtime.ReadMemStats(&before)
			d, err := Read(strings.NewReader(wrap(body)))
			if err != nil {
				done <- what + ": " + err.Error()
				return
			}
			d.Requirements(testMachine(t))
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
				done <- fmt.Sprintf("%s: allocated %d MiB", what, n>>20)
				return
			}
		}
		done <- ""
	}()
	select {
	case problem := <-done:
		if problem != "" {
			t.Error(problem)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("does not end")
	}
}

// TestManyDefinitions tests that a rule with more definitions than maxExtends loses none of them.
func TestManyDefinitions(t *testing.T) {
	criteria, body := "", ""
	const n = 3 * maxExtends
	for i := range n {
		criteria += fmt.Sprintf(`<o:extend_definition definition_ref="e%d"/>`, i)
		body += fmt.Sprintf(`<o:definition id="e%[1]d" class="c"><o:criteria><o:criterion test_ref="t%[1]d"/></o:criteria></o:definition><o:sysctl_test id="t%[1]d"><o:object object_ref="o%[1]d"/></o:sysctl_test><o:sysctl_object id="o%[1]d"><o:name>a.n%[1]d</o:name></o:sysctl_object>`, i)
	}
	d, err := Read(strings.NewReader(wrap(`<o:definition id="d1" class="c"><o:criteria>` + criteria + `</o:criteria></o:definition>` + body)))
	if err != nil {
		t.Fatal(err)
	}
	if all, _ := d.Requirements(testMachine(t)); len(all) != n {
		t.Errorf("%d requirements, want %d", len(all), n)
	}
}
