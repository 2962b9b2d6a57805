package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"fettle.dev/fettle/internal/ui"
)

// unreached is the error of an API server that cannot be reached, or that takes nothing of
// who asks, in one sentence for all verbs; another error stays as it is, and so does one
// that says what to do, as how a run goes on that has begun.
func (a *app) unreached(err error) error {
	address := a.server
	if _, rest, ok := strings.Cut(a.server, "://"); ok {
		address = rest
	}
	if err == nil || address == "" || ui.Code(err) != ui.Failed {
		return err
	}
	var told *ui.Error
	if errors.As(err, &told) && told.Hint != "" {
		return err
	}
	if turned := a.turnedAway(err); turned != nil {
		return turned
	}
	if !strings.Contains(err.Error(), address) { // another server
		return err
	}
	var dial *net.OpError
	var trust *tls.CertificateVerificationError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return ui.Hinted(ui.Failed, fmt.Errorf("the API server %s (%s) cannot be reached: %w", a.server, a.kube.where(), dial.Err), "check its address"+a.kube.inFile()+", that it runs, and the way to it: kubectl get --raw /readyz asks it")
	case errors.As(err, &trust):
		return ui.Hinted(ui.Failed, fmt.Errorf("the API server %s (%s) is not trusted: %w", a.server, a.kube.where(), trust.Err), "check certificate-authority-data of the cluster in the kubeconfig, or --certificate-authority, and that the address is that of the cluster")
	case timedOut(err):
		within := "in time"
		if a.patience > 0 {
			within = fmt.Sprintf("within %s (--request-timeout)", a.patience)
		}
		return ui.Hinted(ui.Failed, fmt.Errorf("the API server %s (%s) has not answered %s%s", a.server, a.kube.where(), within, askedOf(err.Error(), address)), "--request-timeout gives it more time; kubectl get --raw /readyz --request-timeout=10s shows whether it answers at all")
	}
	return err
}

// timedOut reports whether a request has taken too long, whoever has measured that.
func timedOut(err error) bool {
	var slow net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout()
}

// askedOf is what a server was asked for, as the error of the request names it.
func askedOf(text, address string) string {
	_, after, _ := strings.Cut(text, address)
	if end := strings.IndexAny(after, "?\": "); end >= 0 {
		after = after[:end]
	}
	if after == "" {
		return ""
	}
	return ": " + after
}

// where says where the address of the API server is from.
func (o *kubeOptions) where() string {
	if o.over.ClusterInfo.Server != "" {
		return "of --server"
	}
	files := o.files()
	if len(files) == 0 {
		return "of this pod"
	}
	if name := o.over.Context.Cluster; name != "" {
		return fmt.Sprintf("cluster %q of %s", name, strings.Join(files, ", "))
	}
	name := o.over.CurrentContext
	if config, err := o.clientConfig().RawConfig(); err == nil {
		name = cmp.Or(name, config.CurrentContext)
	}
	return fmt.Sprintf("context %q of %s", name, strings.Join(files, ", "))
}

// inFile says that the address is the kubeconfig's, where it is.
func (o *kubeOptions) inFile() string {
	if o.over.ClusterInfo.Server != "" {
		return ""
	}
	return " in the kubeconfig"
}
