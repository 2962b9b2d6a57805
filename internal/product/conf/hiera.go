package conf

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Name is the kind of settings in foreman-installer's custom-hiera.yaml: hiera:KEY and
// hiera:MAP/KEY. They set keys for which the installer has no option.
const Name = "hiera"

const (
	dir  = "/etc/foreman-installer"
	main = dir + "/custom-hiera.yaml"
	logs = "/var/log/foreman-installer"
)

// Kind returns the kind hiera. A key takes effect when an administrator runs foreman-installer,
// which restarts everything; fettle never runs it.
func Kind(h *host.Host) setting.Kind {
	return New(h, Product{
		Name:   Name,
		Syntax: YAML{},
		Roots:  func(*host.Host) []string { return []string{dir} },
		Instances: func(h *host.Host) ([]Instance, error) {
			real, err := h.Files.Resolve(main)
			if host.NotFound(err) {
				return nil, nil
			}
			return []Instance{{Name: "custom-hiera", Main: real}}, err
		},
		Canonical: func(value string) string { return value },
		Effect:    effect,
	})
}

// effect returns OK if the installer has run since the file changed.
func effect(_ context.Context, h *host.Host, main, _, _ string) (plugin.Verdict, string) {
	changed, err := h.Files.Stat(main)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	for _, scenario := range []string{"satellite", "capsule", "katello", "foreman", "foreman-proxy-content"} {
		ran, err := h.Files.Stat(fmt.Sprintf("%s/%s.log", logs, scenario))
		if err == nil && ran.ModTime().After(changed.ModTime()) {
			return plugin.OK, ""
		}
	}
	return plugin.NeedsRestart, "run satellite-installer (foreman-installer) to apply the file"
}
