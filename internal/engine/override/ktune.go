package override

import (
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// readKtune reads what RHEL 6's ktune service applies (tuned 0.2.19,
// ktune/ktune.init): the file that SYSCTL= of /etc/sysconfig/ktune names, then
// /etc/ktune.d/*.conf where USE_KTUNE_D=yes, then once more the administrator's
// files of SYSCTL_POST=.
func readKtune(r *reader) {
	const sysconfig = "/etc/sysconfig/ktune"
	text, ok := r.file(sysconfig)
	if !ok {
		return
	}
	vars := map[string]string{}
	for _, a := range parseShellVars(text) {
		vars[a.key] = a.value
	}
	void, condition := "", ""
	if !r.initLinked("ktune") {
		if void, condition = r.needsUnit("ktune.service", "this file"); void != "" {
			void = "the service ktune, which applies this file, is not enabled"
		}
	}
	files := strings.Fields(vars["SYSCTL"])
	if vars["USE_KTUNE_D"] == "yes" {
		if found, err := host.Glob(r.host.Files, "/etc/ktune.d/*.conf"); err == nil {
			files = append(files, found...)
		}
	}
	own := len(files)
	for _, pattern := range strings.Fields(vars["SYSCTL_POST"]) {
		if found, err := host.Glob(r.host.Files, pattern); err == nil {
			files = append(files, found...)
		}
	}
	for i, f := range files {
		when := "at boot by ktune"
		if i >= own {
			when = "again by ktune, after its own files (SYSCTL_POST of " + sysconfig + ")"
		}
		r.ktuneFile(f, when, void, condition)
	}
}

func (r *reader) ktuneFile(file, when, void, condition string) {
	text, ok := r.file(file)
	if !ok {
		return
	}
	lines, problems := parseSysctl(text)
	for _, p := range problems {
		r.problem(file, p.Line, p.What)
	}
	for _, l := range lines {
		c := Claim{Source: Ktune, File: file, Line: l.line, Text: l.text, Administrator: true, Void: void, Condition: condition, When: when,
			Setting: setting.Setting{Kind: "sysctl", Name: setting.SysctlName("/proc/sys/" + l.key)}}
		value := l.value
		if rest, raises := strings.CutPrefix(value, ">"); raises {
			value, c.Condition = rest, both(condition, "the value is lower than that")
		}
		if strings.HasPrefix(value, "$") {
			c.Condition = both(condition, "it equals the shell variable "+value)
		}
		c.Value = setting.Text(value)
		r.add(c, 0)
	}
}
