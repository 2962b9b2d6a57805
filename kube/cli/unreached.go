package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
)

// unreached explains in one sentence that the API server is unreachable or refuses the user. It
// returns other errors unchanged, and also errors that already have a hint.
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
	if !strings.Contains(err.Error(), address) { // the error is about another server
		return err
	}
	var dial *net.OpError
	var trust *tls.CertificateVerificationError
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown) && !unknown.IsTimeout:
		return ui.Hinted(ui.Failed, fmt.Errorf("the API server %s (%s) cannot be reached: host name %s: %s", a.server, a.kube.where(), unknown.Name, unknown.Err), "check the name"+a.kube.inFile()+" and this machine's DNS; test with getent hosts "+unknown.Name)
	case errors.As(err, &dial) && dial.Op == "dial":
		return ui.Hinted(ui.Failed, fmt.Errorf("the API server %s (%s) cannot be reached: %w", a.server, a.kube.where(), dial.Err), "check its address"+a.kube.inFile()+", that it is running, and the network to it; test with kubectl get --raw /readyz")
	case errors.As(err, &trust):
		return ui.Hinted(ui.Failed, fmt.Errorf("the certificate of API server %s (%s) is not trusted: %w", a.server, a.kube.where(), trust.Err), "check the address, and certificate-authority-data in the kubeconfig or --certificate-authority")
	case timedOut(err):
		within := "in time"
		if a.patience > 0 {
			within = fmt.Sprintf("within %s (--request-timeout)", a.patience)
		}
		return ui.Hinted(ui.Failed, fmt.Errorf("no answer from the API server %s (%s) %s%s", a.server, a.kube.where(), within, askedOf(err.Error(), address)), "raise --request-timeout; test with kubectl get --raw /readyz --request-timeout=10s")
	case unreadable(err):
		return ui.Hinted(ui.Failed, fmt.Errorf("the answer of %s (%s) does not look like an API server's: %w", a.server, a.kube.where(), innermost(err)), "check its address"+a.kube.inFile()+"; test with kubectl get --raw /readyz")
	}
	return err
}

// noPages is a transport that rejects web pages, such as the page of a proxy or a login.
type noPages struct{ next http.RoundTripper }

var errPage = errors.New("it is a web page")

// RoundTrip implements http.RoundTripper.
func (p noPages) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(q)
	if err == nil && resp.StatusCode < http.StatusBadRequest && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		resp.Body.Close()
		return nil, errPage
	}
	return resp, err
}

// WrappedRoundTripper gives client-go the transport, which can cancel requests.
func (p noPages) WrappedRoundTripper() http.RoundTripper { return p.next }

// unreadable reports whether a response was not HTTP, was a web page, or broke off.
func unreadable(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errPage) || strings.Contains(err.Error(), "transport connection broken")
}

// innermost returns the error that others wrap.
func innermost(err error) error {
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the connection was closed")
	}
	return err
}

// timedOut reports whether a request timed out at the client or the server.
func timedOut(err error) bool {
	var slow net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout()
}

// askedOf returns the request path in an error's text.
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

// where returns the source of the API server's address.
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

// inFile says that the kubeconfig has the address; "" if an option sets it.
func (o *kubeOptions) inFile() string {
	if o.over.ClusterInfo.Server != "" {
		return ""
	}
	return " in the kubeconfig"
}

// turnedAway returns an error if the API server rejects the credentials or was sent HTTP without
// TLS, otherwise nil. client-go's own messages lack the server's name, or are only "unknown".
func (a *app) turnedAway(err error) error {
	code, said, known := refused(err)
	server := fmt.Sprintf("the API server %s (%s)", a.server, a.kube.where())
	const who = "kubectl auth whoami shows the user"
	missing := a.kube.missingUser()
	switch {
	case !known:
		return nil
	case code == http.StatusBadRequest && strings.Contains(said, "HTTP request to an HTTPS server"):
		return ui.Hinted(ui.Failed, fmt.Errorf("%s requires TLS", server), "its address"+a.kube.inFile()+" must begin with https://")
	case code == http.StatusUnauthorized && missing == "":
		return ui.Hinted(ui.Failed, fmt.Errorf("%s does not accept these credentials (401 Unauthorized)", server), "check that the token or client certificate belongs to this cluster and has not expired; "+who)
	case code == http.StatusUnauthorized:
		return ui.Hinted(ui.Failed, fmt.Errorf("%s does not accept these credentials (401 Unauthorized): %s", server, missing), "kubectl config view shows the configuration in use")
	case code == http.StatusForbidden && missing != "":
		return ui.Hinted(ui.Failed, fmt.Errorf("%s denied the request (403 Forbidden): %s", server, missing), "kubectl config view shows the configuration in use")
	case code == http.StatusForbidden && strings.HasPrefix(said, "unknown"):
		return ui.Hinted(ui.Failed, fmt.Errorf("%s denied the list of API kinds (403 Forbidden)", server), who+", kubectl auth can-i --list its permissions")
	}
	return nil
}

// refused returns the status and message of an API server's response; known is false if err is not
// a response error of client-go or package cluster.
func refused(err error) (code int, said string, known bool) {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s := status.Status()
		said = s.Message
		if s.Details != nil {
			for _, c := range s.Details.Causes {
				said += " " + c.Message
			}
		}
		return int(s.Code), said, true
	}
	if own := (*cluster.Error)(nil); errors.As(err, &own) {
		return own.Status, own.Message, true
	}
	return 0, "", false
}

// missingUser says that the context's user is missing in the kubeconfig, which makes requests
// anonymous. It returns "" if the user exists or options set one.
func (o *kubeOptions) missingUser() string {
	who := o.over.AuthInfo
	if o.over.Context.AuthInfo != "" || who.Token != "" || who.ClientCertificate != "" {
		return ""
	}
	config, err := o.clientConfig().RawConfig()
	if err != nil {
		return ""
	}
	name := cmp.Or(o.over.CurrentContext, config.CurrentContext)
	c := config.Contexts[name]
	if c == nil || c.AuthInfo == "" || config.AuthInfos[c.AuthInfo] != nil {
		return ""
	}
	return fmt.Sprintf("context %q names user %q, which is not in the kubeconfig; it has %s", name, c.AuthInfo, namesOf(config.AuthInfos))
}

// within cancels a configuration's requests when ctx ends, even those made without a context, such
// as client-go's discovery.
func within(ctx context.Context, config *rest.Config) *rest.Config {
	bound := rest.CopyConfig(config)
	bound.Wrap(func(next http.RoundTripper) http.RoundTripper { return requests{ctx, next} })
	return bound
}

type requests struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r requests) RoundTrip(q *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(q.Context())
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	end := func() { stop(); cancel(nil) }
	resp, err := r.next.RoundTrip(q.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = answer{resp.Body, end}
	return resp, nil
}

// answer is a response body that cancels its request when closed.
type answer struct {
	io.ReadCloser
	end func()
}

func (a answer) Close() error {
	defer a.end()
	return a.ReadCloser.Close()
}

// WrappedRoundTripper gives client-go the transport, which can cancel requests.
func (r requests) WrappedRoundTripper() http.RoundTripper { return r.next }
