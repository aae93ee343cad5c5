"""An authority of the test's own and what it has signed, made with openssl; nothing of it outlives the test."""

import subprocess
from pathlib import Path


def make_certificates(folder: Path) -> Path:
    """An authority, and a certificate of it for localhost and for a device; and one that ran out long ago."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    folder.mkdir(exist_ok=True)
    make = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")
    openssl(*make, "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    for name, common in (("server", "localhost"), ("device", "device")):
        request = ("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl(*request, "-subj", f"/CN={common}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        sign = ("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        openssl(*sign, "-days", "30", "-extfile", "names", "-out", f"{name}.pem")
    sign = ("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
    openssl(*sign, "-days", "-1", "-extfile", "names", "-out", "old.pem")
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder
