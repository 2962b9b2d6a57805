package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/fact"
	guidefindings "fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// maxBaseline limits the size of an earlier audit, in bytes.
const maxBaseline = 64 << 20

// baseline is the machine's state at an earlier time: an audit, an archive or a directory.
type baseline struct {
	file string
	// audit is the earlier audit, or nil if host is an archive or a directory.
	audit *guidefindings.Audit
	host  *host.Host
}

// readBaseline reads the file or directory of --baseline.
func (a *app) readBaseline(name string) (b *baseline, err error) {
	wrong := func(err error) error {
		return ui.Hinted(ui.Usage, fmt.Errorf("--baseline: %w", err), "make a baseline with fettle check --output json > FILE, or use an earlier fact archive or sosreport")
	}
	b = &baseline{file: name}
	if standsForMachine(name) {
		if b.host, err = host.OpenRoot(name); err != nil {
			return nil, wrong(err)
		}
		return b, nil
	}
	text, err := readRegular(name, maxBaseline)
	if err != nil {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("--baseline: %w", err))
	}
	if b.audit, err = guidefindings.ReadBaseline(name, text); err != nil {
		return nil, wrong(err)
	}
	return b, nil
}

// standsForMachine reports whether a path is a copy of a machine: a directory or a fact archive.
func standsForMachine(name string) bool {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return true
	}
	f, err := host.OpenRegular(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(archiveBegins))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == archiveBegins
}

const archiveBegins = "fettle archive "

// earlier returns the usage of the file systems in the baseline, or nil if unknown.
func (b *baseline) earlier() *platform.Earlier {
	if b.host == nil {
		return &platform.Earlier{From: b.file, Time: b.audit.Time, FileSystems: b.audit.FileSystems}
	}
	all, _ := fact.FileSystems(b.host) // empty if unknown
	return &platform.Earlier{From: b.file, Time: b.host.Clock.Now(), FileSystems: all}
}

// auditWith audits the baseline with the rules and platforms of the new audit. asked are the
// platforms on the command line.
func (b *baseline) auditWith(ctx context.Context, a *app, now *audit.Request, asked []string) (*guidefindings.Audit, error) {
	if b.host == nil {
		return b.audit, nil
	}
	if b.host.Incomplete != "" {
		a.screen.Say("%s", b.host.Incomplete)
	}
	s := platform.NewSubject(ctx, b.host, table.Kinds(b.host), audit.Sources())
	names, c := now.Platforms, now.Catalogue
	var undecided []rule.Finding
	if len(asked) == 0 {
		was, unknown := s.Of(audit.Products())
		names = slices.DeleteFunc(was, func(p string) bool { return !slices.Contains(names, p) })
		undecided = platform.Undetermined(unknown)
	}
	findings := append(c.Check(ctx, s, names, c.Disabled()), undecided...)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(findings, audit.Decided) {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("--baseline: nothing could be determined about %s", b.file))
	}
	name := b.host.Hostname()
	was := guidefindings.NewAudit(cmp.Or(name, b.host.Name), b.host.Clock.Now().UTC(), names, findings)
	was.Hostname = name
	return was, nil
}

// readRegular reads a regular file of at most most bytes.
func readRegular(name string, most int64) ([]byte, error) {
	f, err := host.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = internaltext.Errorf("%s is larger than %d MiB", name, most>>20)
	}
	return text, err
}

// against compares an audit with an earlier one. It returns an error if they are of different
// machines: a gate would ignore faults that both machines have.
func (a *app) against(now *guidefindings.Audit, file string, old *guidefindings.Audit) error {
	switch {
	case old.Hostname == "" || now.Hostname == "":
		a.screen.Say("%s may be from another machine: one of the audits has no host name", file)
	case !sameHost(old.Hostname, now.Hostname):
		return ui.Hinted(ui.Usage, fmt.Errorf("--baseline: %s was recorded on another machine (%s); this machine is %s", file, old.Hostname, now.Hostname),
			"--baseline compares a machine with its own past; fettle check --on ssh:A,ssh:B compares machines")
	}
	missing := slices.DeleteFunc(slices.Clone(now.Platforms), func(p string) bool { return slices.Contains(old.Platforms, p) })
	switch {
	case len(missing) == len(now.Platforms):
		return ui.Hinted(ui.Usage, fmt.Errorf("--baseline: %s covers %s, this audit covers %s; no common platform to compare", file, strings.Join(old.Platforms, ", "), strings.Join(now.Platforms, ", ")),
			"name the same platforms, or make a new baseline")
	case len(missing) > 0:
		a.screen.Say("%s does not cover %s, so all findings of this platform count as new", file, strings.Join(missing, ", "))
	}
	now.Against(file, old)
	return nil
}

// sameHost reports whether two names are of the same host. One may lack the domain.
func sameHost(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}
