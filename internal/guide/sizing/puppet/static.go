package puppet

import (
	"fmt"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Names of the scripts on the machine.
const (
	IDScript      = "usr/local/sbin/puppet-code-id"
	ContentScript = "usr/local/sbin/puppet-code-content"
)

// staticCatalogs decides whether catalogs should contain the metadata of files.
func (p *plan) staticCatalogs() error {
	files, catalogs := p.log.Of["file_metadata"], p.log.Of["catalog"]
	each := 0.0
	if catalogs.Count > 0 {
		each = float64(files.Count) / float64(catalogs.Count)
	}
	figures := fmt.Sprintf("%s requests for file_metadata, %.1f for each of %s catalogs, took %s, %.1f %% of all time", unit.Digits(float64(files.Count)), each, unit.Digits(float64(catalogs.Count)), unit.FormatSeconds(files.Seconds), 100*p.log.share("file_metadata"))
	pays := 100*p.log.share("file_metadata") >= p.figure("share percent") || each >= p.figure("each catalog")
	verdict := func(v, why string) {
		p.add("static catalogs", "verdict", v, "", why, staticCatalogPages(), resourceStatistics())
	}
	switch {
	case p.Server.Static && p.Server.Versioned:
		p.static = true
		verdict("in place", "the server can tell the version of its code (P01); "+figures)
		return nil
	case !pays && !p.forced("static"):
		verdict("not worthwhile", text.Sprintf("%s; static catalogs are worthwhile from %.0f %% of the time, or %.0f requests for each catalog", figures, p.figure("share percent"), p.figure("each catalog")))
		return nil
	case p.Server.Enterprise:
		verdict("by Code Manager", figures+"; turn on Code Manager, with which Puppet Enterprise versions the code itself")
		return nil
	case p.Server.Version == "":
		verdict("worthwhile", figures+"; no Puppet Server found to write files for")
		return nil
	case olderThan(p.Server.Version, 2, 3):
		verdict("not with this version", figures+"; static catalogs need Puppet Server 2.3 or later; this is "+p.Server.Version)
		return nil
	}
	p.static = true
	verdict("worthwhile, do first", figures+"; then the metadata is in the catalog, and no answer is stale")
	store := p.Server.Data + "/code-snapshots"
	data := map[string]any{
		"Server": p.Server, "Store": store, "SnapshotDays": p.figure("snapshot days"),
		"IDScript": IDScript, "ContentScript": ContentScript,
	}
	p.Files = append(p.Files,
		sizing.Artefact{Name: IDScript, What: "prints the version of an environment's files", Checked: "git, and Puppet Server's versioned-code service", Content: fill("code-id.sh", data), Executable: true},
		sizing.Artefact{Name: ContentScript, What: "prints a file as it was in a version", Checked: "git, and Puppet Server's versioned-code service", Content: fill("code-content.sh", data), Executable: true})
	if at := p.Server.CommandsAt; at != "" {
		p.Note("%s already sets one of the commands, and the server rejects a setting in two files; in that file, set code-id-command to /%s and code-content-command to /%s", at, IDScript, ContentScript)
	} else {
		p.Files = append(p.Files, sizing.Artefact{Name: p.Server.Options + "/versioned-code.conf", What: "tells Puppet Server of both", Checked: "Puppet Server's versioned-code service", Content: fill("versioned-code.conf", data)})
	}
	if !p.Server.Static {
		p.Note("static_catalogs is false (%s): remove that line, or the commands have no effect; the default is true", p.Server.StaticAt)
	}
	p.Steps = append(p.Steps,
		sizing.Step{Do: "Static catalogs: install git, and make the directory for the snapshots", Command: fmt.Sprintf("install -d -o %s -g %s -m 0750 %s", p.Server.User, p.Server.User, store)},
		sizing.Step{Do: "Put both scripts in place, and try the first as the server's user", Command: fmt.Sprintf("runuser -u %s -- /%s production", p.Server.User, IDScript), Check: "it prints a name of 40 letters and digits, and the same again; if it fails, no catalog is compiled, so do not go on"},
		sizing.Step{Do: "Put versioned-code.conf in place, and restart the server", Command: "systemctl restart puppetserver.service", Restarts: "puppetserver.service, about a minute", Check: "an agent's second run asks for no file_metadata of modules: fettle logs --by indirector"})
	p.Note("static catalogs contain only files of modules in an environment (MODULES/MODULE/files) with a source of puppet:///modules; agents still request files of other mounts")
	return nil
}
