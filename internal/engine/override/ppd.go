package override

import (
	"strings"

	"fettle.dev/fettle/internal/host"
)

// ppdConf maps the power profiles of the desktop to TuneD's, and ppdBase is the one
// that was chosen (TuneD 2.28, tuned/ppd/config.py and controller.py).
const (
	ppdConf = "/etc/tuned/ppd.conf"
	ppdBase = "/etc/tuned/ppd_base_profile"
)

// PowerMapping is one line of tuned-ppd's ppd.conf.
type PowerMapping struct {
	Power   string `json:"power_profile"` // power-saver, balanced, performance
	Profile string `json:"profile"`       // TuneD's
	Battery bool   `json:"battery"`       // of the section for battery power
	File    string `json:"file"`
	Line    int    `json:"line"`
}

// PowerProfile is the mapping by which tuned-ppd chose one of TuneD's profiles; ok is
// false where its files do not lead to that profile.
func PowerProfile(h *host.Host, profile string) (m PowerMapping, ok bool) {
	r := &reader{host: h, claims: &Claims{}}
	base, found := r.file(ppdBase)
	text, mapped := r.file(ppdConf)
	if !found || !mapped {
		return m, false
	}
	base = strings.TrimSpace(base)
	section := ""
	for n, raw := range systemdLines(text) {
		l := strings.TrimSpace(raw)
		if strings.HasPrefix(l, "[") {
			section = strings.Trim(l, "[]")
			continue
		}
		key, value, is := strings.Cut(l, "=")
		if !is || section != "profiles" && section != "battery" || strings.HasPrefix(l, "#") {
			continue
		}
		if strings.TrimSpace(key) == base && strings.TrimSpace(value) == profile {
			return PowerMapping{base, profile, section == "battery", ppdConf, n}, true
		}
	}
	return m, false
}
