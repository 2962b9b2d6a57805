package nginx

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// makes are directives whose file or directory nginx creates when it reads the configuration, even
// with -T (nginx 1.22.1).
var makes = []string{
	"error_log", "access_log", "pid", "lock_file", "client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path",
	"proxy_cache_path", "fastcgi_cache_path", "uwsgi_cache_path", "scgi_cache_path",
}

// maxNames is the maximum number of unresolved host names that a dry run adds for nginx.
const maxNames = 100

var unknownName = text.LazyRegexp(`host not found in [^"]*"(?:[a-z]+://)?([A-Za-z0-9._-]+)`)

// dryRun runs nginx -T, which prints the files that it reads.
func dryRun(ctx context.Context, i *installed, d product.DryRun) (product.Checked, error) {
	d.Argv, d.Otherwise, d.Empty, d.Complaint = []string{"nginx"}, "nobody", i.Files.written(), complaint
	if u, err := systemd.New(i.Host).Load(d.Unit); d.Unit != "" && err == nil {
		if argv, _ := u.Command(); len(argv) > 0 && path.Base(argv[0]) == "nginx" {
			d.Argv = argv // including -g and -p
		}
	}
	d.Argv = append(slices.Clone(d.Argv), "-T", "-c", i.Main)
	if f, ok := i.Files.get("user"); ok && len(f.words) > 0 {
		d.User = f.words[0]
	}
	for {
		c, err := d.Run(ctx, i.Host)
		if m := unknownName().FindStringSubmatch(c.Refused); err == nil && m != nil && len(d.Names) < maxNames && !slices.Contains(d.Names, m[1]) {
			d.Names = append(d.Names, m[1]) // nginx cannot resolve it without a network
			continue
		}
		if err == nil && c.Refused == "" {
			err = i.Files.compare(i.Host, c.Output)
		}
		return c, err
	}
}

// written returns the directories that nginx writes to, except those that it also reads.
func (s settings) written() []string {
	out := []string{"/var/lib/nginx", "/var/cache/nginx"}
	for _, f := range s.all {
		if slices.Contains(makes, bare(f.key)) && strings.HasPrefix(f.words[0], "/") {
			out = append(out, path.Dir(path.Clean(f.words[0])))
		}
	}
	return slices.DeleteFunc(out, func(dir string) bool {
		return slices.ContainsFunc(s.files, func(f string) bool { return strings.HasPrefix(f, dir+"/") }) ||
			slices.ContainsFunc(s.all, func(f found) bool {
				return !slices.Contains(makes, bare(f.key)) && slices.ContainsFunc(f.words, func(w string) bool { return strings.HasPrefix(w, dir+"/") })
			})
	})
}

var dumpedFile = text.LazyRegexp(`^# configuration file [^\n]*:\n`)

// compare returns an error if nginx has read different files or texts than fettle. nginx prints
// each file once, in reading order.
func (s settings) compare(h *host.Host, dump string) error {
	for n, f := range s.files {
		if slices.Contains(s.files[:n], f) {
			continue
		}
		text, err := h.Files.ReadFile(f)
		if err != nil {
			return err
		}
		head := dumpedFile().FindString(dump)
		rest, ok := strings.CutPrefix(dump[len(head):], string(text)+"\n")
		if head == "" || !ok {
			return fmt.Errorf("nginx -T and fettle read different files, or the files are being changed: nginx has %q, fettle has %s", strings.TrimSpace(head), f)
		}
		dump = rest
	}
	if dump != "" {
		return fmt.Errorf("nginx -T read a file that fettle did not read: %q", strings.TrimSpace(dumpedFile().FindString(dump)))
	}
	return nil
}
