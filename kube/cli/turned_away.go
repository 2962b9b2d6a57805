package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
)

// turnedAway is the error of an API server that answers, and does not know who asks,
// or was asked without TLS; nil for another one. client-go has words of its own for these,
// which name no server, or none at all ("unknown").
func (a *app) turnedAway(err error) error {
	code, said, known := refused(err)
	server := fmt.Sprintf("the API server %s (%s)", a.server, a.kube.where())
	const who = "kubectl auth whoami shows who asks"
	missing := a.kube.missingUser()
	switch {
	case !known:
		return nil
	case code == http.StatusBadRequest && strings.Contains(said, "HTTP request to an HTTPS server"):
		return ui.Hinted(ui.Failed, fmt.Errorf("%s wants TLS, and was asked without", server), "its address"+a.kube.inFile()+" has to begin with https://")
	case code == http.StatusUnauthorized && missing == "":
		return ui.Hinted(ui.Failed, fmt.Errorf("%s does not know who asks (401 Unauthorized)", server), "check that its token or client certificate is of this cluster, and has not run out; "+who)
	case code == http.StatusUnauthorized:
		return ui.Hinted(ui.Failed, fmt.Errorf("%s does not know who asks (401 Unauthorized): %s", server, missing), "kubectl config view shows what is read")
	case code == http.StatusForbidden && missing != "":
		return ui.Hinted(ui.Failed, fmt.Errorf("%s refuses what it was asked for (403 Forbidden): %s", server, missing), "kubectl config view shows what is read")
	case code == http.StatusForbidden && strings.HasPrefix(said, "unknown"):
		return ui.Hinted(ui.Failed, fmt.Errorf("%s refuses to say which kinds it has (403 Forbidden)", server), who+", kubectl auth can-i --list what that one may")
	}
	return nil
}

// refused is what an API server has answered to a request, if an error is of that: client-go's
// error, or the one of connections next to it.
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

// missingUser says that the context names a user that the kubeconfig does not have, so that
// the request is anonymous; "" where that is not so, or something else says who asks.
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
	return fmt.Sprintf("context %q names the user %q, which the kubeconfig does not have; it has %s", name, c.AuthInfo, namesOf(config.AuthInfos))
}
