# SPDX-License-Identifier: MIT OR Apache-2.0
# Nix: the command of a release, as one file that needs no library. A release writes its address, version and sums here (tools/recipes).
#
#     nix-build -E '(import <nixpkgs> { }).callPackage ./kasuri.nix { }'
{ stdenvNoCC, fetchurl, lib }:
let
  sums = {
    x86_64-linux = "@sha256_x86_64@";
    aarch64-linux = "@sha256_aarch64@";
  };
  system = stdenvNoCC.hostPlatform.system;
  machine = stdenvNoCC.hostPlatform.parsed.cpu.name;
in
stdenvNoCC.mkDerivation {
  pname = "kasuri";
  version = "@version@";
  src = fetchurl {
    url = "@url@/kasuri-@version@-${machine}-linux.tar.gz";
    sha256 = sums.${system};
  };
  dontConfigure = true;
  dontBuild = true;
  dontStrip = true;
  installPhase = ''
    mkdir -p $out
    cp -R bin share $out/
  '';
  meta = {
    description = "Where the CPU time of a parallel program went, and why";
    license = with lib.licenses; [ mit asl20 ];
    platforms = builtins.attrNames sums;
    mainProgram = "kasuri";
  };
}
