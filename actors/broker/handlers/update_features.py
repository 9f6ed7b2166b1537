"""UpdateFeatures: the controller may raise our own feature; all others stay at their levels (KIP-584, KIP-778)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.features import OURS, Feature, features
from actors.broker.handlers.forwarding import forward
from actors.links.operations import MetadataVersionRaised, RaiseMetadataVersion
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, UpdateFeaturesRequest, UpdateFeaturesResponse

API = UpdateFeaturesRequest
VERSIONS = (0, 2)

Update = UpdateFeaturesRequest.FeatureUpdateKey
Result = UpdateFeaturesResponse.UpdatableFeatureResult
_ONE_ERROR_FROM = 2  # from this version on all updates succeed or fail together


def handle(context: HandlerContext, request: Request) -> UpdateFeaturesResponse | None:
    """Answered at once, unless the controller is to change something."""
    m: UpdateFeaturesRequest = request.message
    known = features(context.broker.metadata.level)
    wrong = [_why_not(known, update) for update in m.feature_updates]
    ours = next((each for each in m.feature_updates if each.feature == OURS), None)
    if ours is None or (request.version >= _ONE_ERROR_FROM and any(wrong)):
        return _answer(m, request.version, wrong)

    def answer(result: MetadataVersionRaised) -> UpdateFeaturesResponse:
        texts = [
            result.error_message if each is ours else text for each, text in zip(m.feature_updates, wrong, strict=True)
        ]
        return _answer(m, request.version, texts)

    forward(context.broker, request, RaiseMetadataVersion(ours.max_version_level, m.validate_only), answer, failed)
    return None


def _answer(m: UpdateFeaturesRequest, version: int, wrong: list[str | None]) -> UpdateFeaturesResponse:
    if version >= _ONE_ERROR_FROM:
        first = next((text for text in wrong if text is not None), None)
        code = ErrorCode.NONE if first is None else ErrorCode.INVALID_UPDATE_VERSION
        return UpdateFeaturesResponse(error_code=code, error_message=first)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            Result(
                feature=update.feature,
                error_code=ErrorCode.NONE if text is None else ErrorCode.INVALID_UPDATE_VERSION,
                error_message=text,
            )
            for update, text in zip(m.feature_updates, wrong, strict=True)
        ],
    )


def _why_not(known: dict[str, Feature], update: Update) -> str | None:
    """The reason why the feature cannot get that level; None if it has it, or if the controller has to say."""
    name, level = update.feature, update.max_version_level
    feature = known.get(name)
    if feature is None:
        return f"there is no feature {name!r}"
    if level != feature.level and name != OURS:
        return f"{name} is {feature.level} and cannot be changed to {level}"
    return None


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> UpdateFeaturesResponse:
    """The whole request refused."""
    return UpdateFeaturesResponse(error_code=code, error_message=text)
